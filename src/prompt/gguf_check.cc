#include "prompt/gguf_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "prompt/byte_source.h"
#include "prompt/gguf_metadata.h"
#include "prompt/gguf_types.h"

namespace kvern::prompt {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they stand");

using kvern_vocab::Value;

constexpr std::uint64_t kTensorNameBytes = 63;  // GGML_MAX_NAME less its end
constexpr std::uint32_t kTensorDimensions = 4;
constexpr std::uint64_t kAlignmentMax = 1U << 20U;
constexpr std::uint64_t kLayersMax = 512;  // LLAMA_MAX_LAYERS

/// Text of the file as it may stand in a message: short, printable.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 64)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > 64 ? out + "..." : out;
}

/// One pass over a header. Every method returns false after setting error_; nothing is read after that.
class Checker {
 public:
  Checker(ByteSource& source, const GgufLimits& limits) : source_(source), limits_(limits) {}

  Result<GgufInfo> run() {
    if (!header() || !keys() || !architecture() || !tensors() || !vocabulary()) {
      return fail(ErrorCode::kInvalidRequest, "not a usable GGUF file: " + error_);
    }
    return info();
  }

 private:
  bool bad(std::string message) {
    error_ = std::move(message);
    return false;
  }
  template <typename T>
  bool number(T& value, std::string_view what) {
    if (source_.read(&value, sizeof value)) return true;
    return bad(fmt::format("it ends at byte {} inside {}", source_.size(), what));
  }
  /// A length or count of things of at least `each` bytes: no more than the rest of the file holds.
  bool count(std::uint64_t& value, std::uint64_t each, std::uint64_t most, std::string_view what) {
    if (!number(value, what)) return false;
    if (value > source_.left() / each) {
      return bad(fmt::format("{} at byte {} says {}, past the end of the file ({} bytes)", what,
                             source_.position() - sizeof value, value, source_.size()));
    }
    if (value > most) return bad(fmt::format("{} is {}, over the limit of {}", what, value, most));
    return true;
  }
  bool text(std::string& value, std::uint64_t most, std::string_view what) {
    std::uint64_t bytes = 0;
    if (!count(bytes, 1, most, what)) return false;
    value.resize(static_cast<std::size_t>(bytes));
    if (!source_.read(value.data(), value.size())) return bad(fmt::format("{} cannot be read", what));
    return true;
  }

  std::uint64_t padded(std::uint64_t at) const { return (at + alignment_ - 1) / alignment_ * alignment_; }

  bool header();
  bool keys();
  bool key_value(const std::string& key);
  bool array(const std::string& key, bool keep, Value& value);
  bool tensors();
  bool tensor(std::uint64_t index, std::uint64_t& next);
  bool architecture();
  bool vocabulary();
  GgufInfo info();

  bool kept(std::string_view key) const {
    return key.starts_with("general.") || key.starts_with("tokenizer.") || key.ends_with(".context_length") ||
           key.ends_with(".vocab_size") || key.ends_with(".block_count") || key.ends_with("norm_epsilon") ||
           key.ends_with("norm_rms_epsilon");
  }
  const Value* find(std::string_view key, GgufType type) const {
    const auto it = metadata_->values.find(key);
    if (it == metadata_->values.end() || it->second.type != static_cast<std::uint32_t>(type)) return nullptr;
    return &it->second;
  }
  std::string text_of(std::string_view key) const {
    const Value* value = find(key, GgufType::kString);
    return value != nullptr ? value->text : std::string();
  }

  ByteSource& source_;
  const GgufLimits& limits_;
  std::string error_;
  std::shared_ptr<GgufMetadata> metadata_ = std::make_shared<GgufMetadata>();
  std::unordered_set<std::string> names_;                    // of keys, then of tensors
  std::vector<std::pair<std::string, std::uint64_t>> ends_;  // of tensors, in the data
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t alignment_ = 32;
};

bool Checker::header() {
  char magic[4] = {};
  if (!source_.read(magic, sizeof magic) || std::memcmp(magic, "GGUF", 4) != 0) {
    return bad("it does not begin with GGUF");
  }
  std::uint32_t version = 0;
  if (!number(version, "the version")) return false;
  if ((version & 0xFFFFU) == 0) return bad("it was written for big-endian machines");
  if (version != 2 && version != 3) return bad(fmt::format("its version is {}, not 2 or 3", version));
  // The least a tensor takes: name length, dimensions, type, offset. The least a key takes: its length, a byte, type.
  return count(tensor_count_, 24, limits_.tensors, "the number of tensors") &&
         count(key_count_, 13, limits_.keys, "the number of keys");
}

bool Checker::keys() {
  for (std::uint64_t i = 0; i < key_count_; ++i) {
    std::string key;
    if (!text(key, limits_.key_bytes, fmt::format("the length of key {}", i))) return false;
    if (key.empty()) return bad(fmt::format("key {} is empty", i));
    if (!names_.insert(key).second) return bad(fmt::format("key `{}` stands twice", shown(key)));
    if (!key_value(key)) return false;
  }
  return true;
}

bool Checker::key_value(const std::string& key) {
  const std::string what = fmt::format("the value of `{}`", shown(key));
  Value value;
  if (!number(value.type, what)) return false;
  const bool keep = kept(key);
  if (value.type == static_cast<std::uint32_t>(GgufType::kArray)) {
    if (!array(key, keep, value)) return false;
  } else if (value.type == static_cast<std::uint32_t>(GgufType::kString)) {
    if (keep) {
      if (!text(value.text, key == "tokenizer.chat_template" ? limits_.template_bytes : source_.size(), what)) {
        return false;
      }
    } else {
      std::uint64_t bytes = 0;
      if (!count(bytes, 1, source_.size(), what) || !source_.skip(bytes)) return false;
    }
  } else {
    const std::uint64_t bytes = scalar_bytes(value.type);
    if (bytes == 0) return bad(fmt::format("{} has the unknown type {}", what, value.type));
    value.words.resize(1);
    if (!source_.read(value.words.data(), bytes)) {
      return bad(fmt::format("it ends at byte {} inside {}", source_.size(), what));
    }
  }
  if (key == "general.alignment") {
    if (value.type != static_cast<std::uint32_t>(GgufType::kUint32)) return bad("its alignment is not a 32-bit number");
    alignment_ = static_cast<std::uint32_t>(value.words.at(0));
    if (!std::has_single_bit(alignment_) || alignment_ > kAlignmentMax) {
      return bad(fmt::format("its alignment {} is not a power of two up to {}", alignment_, kAlignmentMax));
    }
  }
  if (keep) metadata_->values.emplace(key, std::move(value));
  return true;
}

bool Checker::array(const std::string& key, bool keep, Value& value) {
  const std::string what = fmt::format("the array `{}`", shown(key));
  if (!number(value.element_type, what)) return false;
  if (value.element_type == static_cast<std::uint32_t>(GgufType::kString)) {
    const bool tokens = key == "tokenizer.ggml.tokens";
    if (!count(value.count, 8, tokens ? limits_.tokens : source_.size(), what)) return false;
    if (keep) value.strings.reserve(static_cast<std::size_t>(value.count));
    for (std::uint64_t i = 0; i < value.count; ++i) {
      std::uint64_t bytes = 0;
      // The name of the element is made only for the message: a vocabulary has hundreds of thousands.
      if (!source_.read(&bytes, sizeof bytes)) return bad(fmt::format("it ends inside element {} of {}", i, what));
      if (bytes > source_.left()) {
        return bad(fmt::format("element {} of {} at byte {} is {} bytes long, past the end of the file ({} bytes)", i,
                               what, source_.position() - sizeof bytes, bytes, source_.size()));
      }
      if (tokens && bytes > limits_.token_bytes) {
        return bad(fmt::format("token {} is {} bytes long, over the limit of {}", i, bytes, limits_.token_bytes));
      }
      if (!keep) {
        if (!source_.skip(bytes)) return bad(fmt::format("it ends inside element {} of {}", i, what));
        continue;
      }
      std::string element(static_cast<std::size_t>(bytes), '\0');
      if (!source_.read(element.data(), element.size())) {
        return bad(fmt::format("element {} of {} cannot be read", i, what));
      }
      value.strings.push_back(std::move(element));
    }
    return true;
  }
  const std::uint64_t each = scalar_bytes(value.element_type);
  if (each == 0) return bad(fmt::format("{} has elements of type {}", what, value.element_type));
  if (!count(value.count, each, source_.size(), what)) return false;
  const std::uint64_t bytes = value.count * each;  // fits: count() held it against the file
  if (!keep) return source_.skip(bytes) || bad(fmt::format("it ends inside {}", what));
  value.words.resize(static_cast<std::size_t>((bytes + 7) / 8));
  if (!source_.read(value.words.data(), static_cast<std::size_t>(bytes))) {
    return bad(fmt::format("{} cannot be read", what));
  }
  return true;
}

bool Checker::tensors() {
  names_.clear();
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    if (!tensor(i, next)) return false;
  }
  // Both terms are below 2^63: the position is inside the file, and every end was held against its size.
  const std::uint64_t data = padded(source_.position());
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (data + ends_[i].second <= source_.size()) continue;
    return bad(fmt::format("tensor {} `{}` ends at byte {}, past the end of the file ({} bytes)", i,
                           shown(ends_[i].first), data + ends_[i].second, source_.size()));
  }
  return true;
}

bool Checker::tensor(std::uint64_t index, std::uint64_t& next) {
  std::string name;
  if (!text(name, kTensorNameBytes, fmt::format("the length of the name of tensor {}", index))) return false;
  const std::string what = fmt::format("tensor {} `{}`", index, shown(name));
  if (!names_.insert(name).second) return bad(what + " stands twice");

  std::uint32_t dimensions = 0;
  if (!number(dimensions, what)) return false;
  if (dimensions > kTensorDimensions) {
    return bad(fmt::format("{} has {} dimensions, more than {}", what, dimensions, kTensorDimensions));
  }
  std::uint64_t row = 1;
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    std::uint64_t size = 0;
    if (!number(size, what)) return false;
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return bad(fmt::format("{} has a negative dimension", what));
    }
    if (i == 0) row = size;
    // Held below 2^63 even where a later dimension is 0, since readers multiply in order.
    if (size > 1 && elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size) {
      return bad(what + " has more elements than can be counted");
    }
    elements *= size;
  }
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  if (!number(type, what) || !number(offset, what)) return false;
  const TensorBlock block = tensor_block(type);
  if (block.elements == 0) return bad(fmt::format("{} has the unknown type {}", what, type));
  if (row % block.elements != 0) {
    return bad(fmt::format("{} has rows of {} elements, not a multiple of {}", what, row, block.elements));
  }
  const std::uint64_t blocks = elements / block.elements;
  if (blocks > source_.size() / block.bytes) {
    return bad(fmt::format("{} takes {} blocks of {} bytes, more than the file's {} bytes", what, blocks, block.bytes,
                           source_.size()));
  }
  if (offset != next) {
    return bad(fmt::format("{} starts at {} of the data instead of {}", what, offset, next));
  }
  const std::uint64_t end = offset + blocks * block.bytes;
  if (end > source_.size()) {
    return bad(
        fmt::format("{} ends at byte {} of the data, past the end of the file ({} bytes)", what, end, source_.size()));
  }
  ends_.emplace_back(std::move(name), end);
  next = padded(end);
  return true;
}

bool Checker::vocabulary() {
  const auto list = metadata_->values.find("tokenizer.ggml.tokens");
  if (list == metadata_->values.end()) return true;
  const Value& tokens = list->second;
  if (tokens.type != static_cast<std::uint32_t>(GgufType::kArray) ||
      tokens.element_type != static_cast<std::uint32_t>(GgufType::kString)) {
    return bad("its tokens are not an array of strings");
  }
  for (const char* key : {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"}) {
    const auto it = metadata_->values.find(key);
    if (it != metadata_->values.end() && it->second.count < tokens.count) {
      return bad(fmt::format("`{}` has {} entries for {} tokens", key, it->second.count, tokens.count));
    }
  }
  // llama.cpp ends the process when a spelling stands twice.
  std::unordered_set<std::string_view> spellings;
  spellings.reserve(tokens.strings.size());
  for (std::size_t i = 0; i < tokens.strings.size(); ++i) {
    if (!spellings.insert(tokens.strings[i]).second) {
      return bad(fmt::format("token {} `{}` stands twice", i, shown(tokens.strings[i])));
    }
  }
  return true;
}

/// Numbers that llama.cpp asserts instead of checking: it would end the process, here or at the first request.
bool Checker::architecture() {
  const std::string name = text_of("general.architecture");
  if (const Value* layers = find(name + ".block_count", GgufType::kUint32)) {
    if (layers->words.at(0) == 0 || layers->words.at(0) > kLayersMax) {
      return bad(fmt::format("it has {} layers, not 1 to {}", layers->words.at(0), kLayersMax));
    }
  }
  for (const char* key : {".attention.layer_norm_epsilon", ".attention.layer_norm_rms_epsilon"}) {
    const Value* value = find(name + key, GgufType::kFloat32);
    if (value == nullptr) continue;
    const auto epsilon = std::bit_cast<float>(static_cast<std::uint32_t>(value->words.at(0)));
    if (!std::isfinite(epsilon) || epsilon < 0) return bad(fmt::format("its {} is no small positive number", key + 1));
  }
  return true;
}

GgufInfo Checker::info() {
  GgufInfo info;
  info.architecture = text_of("general.architecture");
  info.name = text_of("general.name");
  info.chat_template = text_of("tokenizer.chat_template");
  info.tokenizer_model = text_of("tokenizer.ggml.model");
  if (const Value* value = find(info.architecture + ".context_length", GgufType::kUint32)) {
    info.context_tokens = static_cast<std::uint32_t>(value->words.at(0));
  }
  if (const Value* value = find("tokenizer.ggml.tokens", GgufType::kArray)) {
    info.vocab_tokens = static_cast<std::uint32_t>(value->count);
  }
  info.tensors = tensor_count_;
  info.file_bytes = source_.size();
  info.metadata = std::move(metadata_);
  return info;
}

}  // namespace

Result<GgufInfo> inspect(const std::filesystem::path& path, const GgufLimits& limits) {
  Result<ByteSource> source = ByteSource::open(path);
  if (!source.ok()) return std::move(source).error();
  return Checker(*source, limits).run();
}

Result<GgufInfo> inspect_bytes(std::span<const std::byte> bytes, const GgufLimits& limits) {
  ByteSource source(bytes);
  return Checker(source, limits).run();
}

}  // namespace kvern::prompt

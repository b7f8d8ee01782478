#include "engine/events/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/events/msgpack.h"

namespace kvern::engine::events {
namespace {

using kv::AllBlocksCleared;
using kv::BlockRemoved;
using kv::BlockStored;
using kv::CachePlace;
using kv::EngineHash;
using msgpack::Integer;
using msgpack::Reader;
using msgpack::Type;

constexpr std::string_view kStoredTag = "BlockStored";
constexpr std::string_view kRemovedTag = "BlockRemoved";
constexpr std::string_view kClearedTag = "AllBlocksCleared";
constexpr std::string_view kIgnoredTag = "Ignored";

// --- Reading ------------------------------------------------------------------------------------------------------

/// The fields of all events under the names the maps use. What an event has no use for is skipped.
enum class Field : std::uint8_t {
  kType,
  kBlockHashes,
  kParent,
  kTokenIds,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kExtraKeys,
  kGroupIdx,
  kSpecKind,
  kSlidingWindow,
  kLocality,
  kOwnership,
  kSessionId,
  kSourceKind,
  kCacheSalt,
  kUnknown,
};

constexpr std::pair<std::string_view, Field> kFieldNames[] = {
    {"type", Field::kType},
    {"block_hashes", Field::kBlockHashes},
    {"parent_block_hash", Field::kParent},
    {"token_ids", Field::kTokenIds},
    {"block_size", Field::kBlockSize},
    {"lora_id", Field::kLoraId},
    {"medium", Field::kMedium},
    {"lora_name", Field::kLoraName},
    {"extra_keys", Field::kExtraKeys},
    {"group_idx", Field::kGroupIdx},
    {"kv_cache_spec_kind", Field::kSpecKind},
    {"kv_cache_spec_sliding_window", Field::kSlidingWindow},
    {"locality", Field::kLocality},
    {"ownership", Field::kOwnership},
    {"session_id", Field::kSessionId},
    {"source_kind", Field::kSourceKind},
    {"cache_salt", Field::kCacheSalt},
};

// Where tuples have them, after the tag. Behind these comes the tail (read_tail).
constexpr Field kStoredOrder[] = {Field::kBlockHashes, Field::kParent, Field::kTokenIds, Field::kBlockSize,
                                  Field::kLoraId,      Field::kMedium, Field::kLoraName, Field::kExtraKeys};
constexpr Field kRemovedOrder[] = {Field::kBlockHashes, Field::kMedium};
constexpr Field kClearedOrder[] = {Field::kSourceKind};

Field field_named(std::string_view name) {
  for (const auto& [known, field] : kFieldNames) {
    if (known == name) return field;
  }
  return Field::kUnknown;
}

/// Everything an event can say, before its tag is known: a map may have it last.
struct RawEvent {
  std::string_view tag;
  BlockStored stored;
  std::uint64_t seen = 0;  // a bit for each Field that was there, nil included

  bool has(Field field) const { return (seen >> static_cast<unsigned>(field) & 1U) != 0; }
};

class Decoder {
 public:
  explicit Decoder(std::string_view payload) : reader_(payload) {}

  Result<Decoded> run() {
    const bool good = batch() && (reader_.remaining() == 0 || wrong("nothing more"));
    if (!good) return invalid("payload", fmt::format("no KV events: at byte {} there should be {}", at_, wanted_));
    return std::move(decoded_);
  }

 private:
  /// Notes the first thing that does not fit, and fails.
  bool wrong(std::string_view wanted) {
    if (wanted_.empty()) {
      wanted_ = wanted;
      at_ = reader_.offset();
    }
    return false;
  }

  bool batch() {
    std::uint32_t size = 0;
    if (reader_.array(size)) {
      if (size < 2) return wrong("a time and a list of events");
      if (!timestamp() || !events() || (size > 2 && !rank())) return false;
      for (std::uint32_t i = 3; i < size; ++i) {
        if (!skip()) return false;
      }
      return true;
    }
    if (!reader_.map(size)) return wrong("a batch, as array or map");
    bool has_events = false;
    for (std::uint32_t i = 0; i < size; ++i) {
      std::string_view key;
      if (!reader_.text(key)) return wrong("a key");
      bool good = false;
      if (key == "ts") {
        good = timestamp();
      } else if (key == "events" && !has_events) {
        good = has_events = events();
      } else if (key == "data_parallel_rank" || key == "dp_rank" || key == "attn_dp_rank") {
        good = rank();
      } else {
        good = skip();
      }
      if (!good) return false;
    }
    return has_events || wrong("a list of events");
  }

  bool timestamp() { return reader_.number(decoded_.batch.timestamp_s) || wrong("a time"); }

  bool rank() {
    if (reader_.nil()) return true;
    Integer rank;
    if (!reader_.integer(rank) || rank.negative || rank.bits > std::numeric_limits<std::int32_t>::max()) {
      return wrong("a rank");
    }
    decoded_.batch.data_parallel_rank = static_cast<std::int32_t>(rank.bits);
    return true;
  }

  bool events() {
    std::uint32_t size = 0;
    if (!reader_.array(size)) return wrong("a list of events");
    for (std::uint32_t i = 0; i < size; ++i) {
      if (!event()) return false;
    }
    return true;
  }

  bool event() {
    RawEvent raw;
    std::uint32_t size = 0;
    if (reader_.array(size)) {
      if (size == 0 || !reader_.text(raw.tag)) return wrong("the tag of an event");
      return tuple(raw, size - 1) && take(raw);
    }
    if (!reader_.map(size)) return wrong("an event, as tuple or map");
    for (std::uint32_t i = 0; i < size; ++i) {
      std::string_view key;
      if (!reader_.text(key)) return wrong("a key");
      if (!field(field_named(key), raw)) return false;
    }
    return (raw.has(Field::kType) || wrong("an event with a type")) && take(raw);
  }

  bool tuple(RawEvent& raw, std::uint32_t size) {
    std::span<const Field> order;
    const bool has_tail = raw.tag == kStoredTag || raw.tag == kRemovedTag;
    if (raw.tag == kStoredTag) order = kStoredOrder;
    if (raw.tag == kRemovedTag) order = kRemovedOrder;
    if (raw.tag == kClearedTag) order = kClearedOrder;
    std::uint32_t at = 0;
    for (; at < size && at < order.size(); ++at) {
      if (!field(order[at], raw)) return false;
    }
    if (has_tail && at < size) {
      const std::uint32_t tail = std::min<std::uint32_t>(size - at, kTailSlots);
      if (!read_tail(raw, tail)) return false;
      at += tail;
    }
    for (; at < size; ++at) {
      if (!skip()) return false;
    }
    return true;
  }

  static constexpr std::uint32_t kTailSlots = 5;
  struct TailValue {
    Type type = Type::kNil;
    std::uint32_t number = 0;
    std::string_view text;
  };

  /// The tail of a tuple: group, kind, window, locality, source. Older vLLMs left out slots they had no use for, and
  /// could have a list of media first; so a tail that does not fit is read by types: first number the group, second
  /// the window, a text the kind (as Dynamo's zmq_wire does).
  bool read_tail(RawEvent& raw, std::uint32_t size) {
    std::array<TailValue, kTailSlots> tail;
    for (std::uint32_t i = 0; i < size; ++i) {
      TailValue& value = tail[i];
      value.type = reader_.peek();
      if (value.type == Type::kInteger) {
        if (!number32(value.number)) return false;
      } else if (!(value.type == Type::kText ? reader_.text(value.text) : skip())) {
        return wrong("the tail of an event");
      }
    }
    constexpr std::array kFixed = {Type::kInteger, Type::kText, Type::kInteger, Type::kText, Type::kText};
    bool fixed = size >= 4;
    for (std::uint32_t i = 0; i < size; ++i) fixed = fixed && (tail[i].type == Type::kNil || tail[i].type == kFixed[i]);
    CachePlace& place = raw.stored.place;
    const auto number_of = [](const TailValue& value) {
      return value.type == Type::kInteger ? std::optional(value.number) : std::nullopt;
    };
    const auto text_of = [](const TailValue& value) {
      return value.type == Type::kText ? std::optional<std::string>(value.text) : std::nullopt;
    };
    if (fixed) {
      place.group_idx = number_of(tail[0]);
      place.spec_kind = text_of(tail[1]);
      place.sliding_window = number_of(tail[2]);
      place.locality = text_of(tail[3]);
      place.source_kind = text_of(tail[4]);
      return true;
    }
    for (const TailValue& value : std::span(tail).first(size)) {
      if (value.type == Type::kText && !place.spec_kind) place.spec_kind = value.text;
      if (value.type != Type::kInteger) continue;
      (place.group_idx ? place.sliding_window : place.group_idx) = value.number;
    }
    return true;
  }

  bool field(Field field, RawEvent& raw) {
    raw.seen |= std::uint64_t{1} << static_cast<unsigned>(field);
    BlockStored& stored = raw.stored;
    switch (field) {
      case Field::kType: return reader_.text(raw.tag) || wrong("the type of an event");
      case Field::kBlockHashes: return hashes(stored.block_hashes);
      case Field::kParent: stored.parent.reset(); return reader_.nil() || hash(stored.parent.emplace());
      case Field::kTokenIds: return tokens(stored);
      case Field::kBlockSize: return number32(stored.block_size);
      case Field::kLoraId: return lora_id(stored);
      case Field::kMedium: return text(stored.place.medium);
      case Field::kLoraName: return lora_name(stored);
      case Field::kExtraKeys: return extra_keys(stored);
      case Field::kGroupIdx: return number32(stored.place.group_idx);
      case Field::kSpecKind: return text(stored.place.spec_kind);
      case Field::kSlidingWindow: return number32(stored.place.sliding_window);
      case Field::kLocality: return text(stored.place.locality);
      case Field::kOwnership: return text(stored.place.ownership);
      case Field::kSessionId: return text(stored.session_id);
      case Field::kSourceKind: return text(stored.place.source_kind);
      case Field::kCacheSalt: return text(stored.cache_salt);
      case Field::kUnknown: return skip();
    }
    return false;
  }

  bool take(RawEvent& raw) {
    BlockStored& stored = raw.stored;
    auto& events = decoded_.batch.events;
    if (raw.tag == kStoredTag) {
      if (!raw.has(Field::kBlockHashes) || !raw.has(Field::kTokenIds) || !raw.has(Field::kBlockSize)) {
        return wrong("hashes, tokens and block size of what was stored");
      }
      events.emplace_back(std::move(stored));
    } else if (raw.tag == kRemovedTag) {
      if (!raw.has(Field::kBlockHashes)) return wrong("hashes of what was removed");
      events.emplace_back(BlockRemoved{std::move(stored.block_hashes), std::move(stored.place)});
    } else if (raw.tag == kClearedTag) {
      events.emplace_back(AllBlocksCleared{std::move(stored.place.source_kind)});
    } else if (raw.tag == kIgnoredTag) {
      ++decoded_.ignored;
    } else {
      ++decoded_.unknown;
    }
    return true;
  }

  // Values. Each passes one, or fails.

  bool skip() { return reader_.skip() || wrong("a whole value"); }

  bool text(std::optional<std::string>& value) {
    value.reset();
    if (reader_.nil()) return true;
    std::string_view found;
    if (!reader_.text(found)) return wrong("a text");
    value.emplace(found);
    return true;
  }

  bool number32(std::uint32_t& value) {
    Integer found;
    if (!reader_.integer(found) || found.negative || found.bits > std::numeric_limits<std::uint32_t>::max()) {
      return wrong("a number of 32 bits");
    }
    value = static_cast<std::uint32_t>(found.bits);
    return true;
  }
  bool number32(std::optional<std::uint32_t>& value) {
    value.reset();
    return reader_.nil() || number32(value.emplace());
  }

  bool lora_id(BlockStored& stored) {
    if (reader_.nil()) return true;
    Integer id;
    if (!reader_.integer(id)) return wrong("a LoRA id");
    stored.lora_id = static_cast<std::int64_t>(id.bits);
    return true;
  }

  /// SGLang's tuples have a map of metadata in this place.
  bool lora_name(BlockStored& stored) {
    std::uint32_t size = 0;
    if (!reader_.map(size)) return text(stored.lora_name);
    for (std::uint32_t i = 0; i < size; ++i) {
      std::string_view key;
      if (!reader_.text(key)) return wrong("a key");
      if (!(key == "cache_salt" ? text(stored.cache_salt) : skip())) return false;
    }
    return true;
  }

  bool hash(EngineHash& value) {
    Integer number;
    if (reader_.integer(number)) {
      value = number.bits;
      return true;
    }
    std::string_view bytes;
    if (!reader_.bytes(bytes)) return wrong("a block hash");
    value.emplace<std::string>(bytes);
    return true;
  }

  bool hashes(std::vector<EngineHash>& values) {
    std::uint32_t size = 0;
    if (!reader_.array(size)) return wrong("a list of block hashes");
    values.clear();
    values.reserve(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      if (!hash(values.emplace_back())) return false;
    }
    return true;
  }

  bool token(TokenId& value) {
    Integer number;
    if (!reader_.integer(number) || number.negative || number.bits > std::numeric_limits<TokenId>::max()) {
      return wrong("a token id");
    }
    value = static_cast<TokenId>(number.bits);
    return true;
  }

  bool tokens(BlockStored& stored) {
    std::uint32_t size = 0;
    if (!reader_.array(size)) return wrong("a list of token ids");
    stored.bigrams = reader_.peek() == Type::kArray && size > 0;
    stored.token_ids.clear();
    stored.token_ids.reserve(std::size_t{size} + 1);
    if (stored.bigrams) return bigrams(stored.token_ids, size);
    for (std::uint32_t i = 0; i < size; ++i) {
      if (!token(stored.token_ids.emplace_back())) return false;
    }
    return true;
  }

  /// Pairs of a token and the next one: (1,2) (2,3) are the tokens 1, 2, 3.
  bool bigrams(Tokens& tokens, std::uint32_t pairs) {
    for (std::uint32_t i = 0; i < pairs; ++i) {
      std::uint32_t two = 0;
      TokenId first = 0;
      TokenId second = 0;
      if (!reader_.array(two) || two != 2) return wrong("a pair of token ids");
      if (!token(first) || !token(second)) return false;
      if (i == 0) tokens.push_back(first);
      if (tokens.back() != first) return wrong("a pair that goes on from the one before");
      tokens.push_back(second);
    }
    return true;
  }

  bool extra_keys(BlockStored& stored) {
    stored.extra_keys.reset();
    if (reader_.nil()) return true;
    std::uint32_t size = 0;
    if (!reader_.array(size)) return wrong("a list of extra keys");
    auto& blocks = stored.extra_keys.emplace();
    blocks.reserve(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      kv::ExtraKeys& keys = blocks.emplace_back();
      if (reader_.nil()) continue;
      std::uint32_t count = 0;
      if (!reader_.array(count)) return wrong("the extra keys of a block");
      keys.emplace();
      for (std::uint32_t k = 0; k < count; ++k) {
        if (!extra_key(keys->emplace_back())) return false;
      }
    }
    return true;
  }

  bool extra_key(kv::ExtraKey& key) {
    std::string_view name;
    if (reader_.text(name)) {
      key.emplace<std::string>(name);
      return true;
    }
    const std::size_t start = reader_.offset();
    Reader ahead = reader_;
    std::uint32_t size = 0;
    Integer offset;
    if (ahead.array(size) && size == 2 && ahead.text(name) && ahead.integer(offset) &&
        offset.negative == (static_cast<std::int64_t>(offset.bits) < 0)) {
      key = kv::MediaKey{std::string(name), static_cast<std::int64_t>(offset.bits)};
      return skip();
    }
    if (!skip()) return false;
    key = kv::OpaqueKey{std::string(reader_.since(start))};
    return true;
  }

  Reader reader_;
  Decoded decoded_;
  std::string_view wanted_;
  std::size_t at_ = 0;
};

// --- Writing ------------------------------------------------------------------------------------------------------

bool is_sglang(WireStyle style) { return style == WireStyle::kSglangMaps || style == WireStyle::kSglangTuples; }

/// A tuple or map under construction. Values that are not set are nil in a tuple and may be left out of a map; a tuple
/// ends after its last value that is set.
class EventWriter {
 public:
  EventWriter(WireStyle style, std::string_view tag)
      : maps_(style == WireStyle::kVllmMaps || style == WireStyle::kSglangMaps), signed_hashes_(is_sglang(style)) {
    begin("type");
    msgpack::write_text(body_, tag);
    end(true);
  }

  bool maps() const { return maps_; }

  void hashes(const std::vector<EngineHash>& values) {
    begin("block_hashes");
    msgpack::write_array(body_, values.size());
    for (const EngineHash& value : values) write_hash(value);
    end(true);
  }
  void parent(const std::optional<EngineHash>& value) {
    begin("parent_block_hash");
    value ? write_hash(*value) : msgpack::write_nil(body_);
    end(true);
  }
  void tokens(const BlockStored& stored) {
    begin("token_ids");
    const Tokens& ids = stored.token_ids;
    if (stored.bigrams && !ids.empty()) {
      msgpack::write_array(body_, ids.size() - 1);
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        msgpack::write_array(body_, 2);
        write_token(ids[i]);
        write_token(ids[i + 1]);
      }
    } else {
      msgpack::write_array(body_, ids.size());
      for (const TokenId id : ids) write_token(id);
    }
    end(true);
  }
  void extra_keys(const std::optional<std::vector<kv::ExtraKeys>>& blocks) {
    if (!blocks) return absent();
    begin("extra_keys");
    msgpack::write_array(body_, blocks->size());
    for (const kv::ExtraKeys& keys : *blocks) {
      if (!keys) {
        msgpack::write_nil(body_);
        continue;
      }
      msgpack::write_array(body_, keys->size());
      for (const kv::ExtraKey& key : *keys) write_key(key);
    }
    end(true);
  }
  /// `always`: a map has the key also when there is no value.
  void text(std::string_view name, const std::optional<std::string>& value, bool always = false) {
    if (!value && !always) return absent();
    begin(name);
    value ? msgpack::write_text(body_, *value) : msgpack::write_nil(body_);
    end(value.has_value());
  }
  void number(std::string_view name, std::optional<std::int64_t> value, bool always = false) {
    if (!value && !always) return absent();
    begin(name);
    value ? msgpack::write_signed(body_, *value) : msgpack::write_nil(body_);
    end(value.has_value());
  }
  void salt_metadata(const std::optional<std::string>& salt) {
    if (!salt) return absent();
    msgpack::write_map(body_, 1);
    msgpack::write_text(body_, "cache_salt");
    msgpack::write_text(body_, *salt);
    end(true);
  }
  /// A tuple goes on at least to here, whatever is set.
  void keep() {
    kept_ = std::max(kept_, count_);
    kept_bytes_ = body_.size();
  }

  void finish(std::string& out) {
    if (maps_) {
      msgpack::write_map(out, count_);
      out.append(body_);
    } else {
      msgpack::write_array(out, kept_);
      out.append(body_, 0, kept_bytes_);
    }
  }

 private:
  void begin(std::string_view name) {
    if (maps_) msgpack::write_text(body_, name);
  }
  void end(bool is_set) {
    ++count_;
    if (is_set) keep();
  }
  void absent() {
    if (maps_) return;
    msgpack::write_nil(body_);
    end(false);
  }
  void write_hash(const EngineHash& value) {
    if (const auto* bytes = std::get_if<std::string>(&value)) return msgpack::write_bytes(body_, *bytes);
    const std::uint64_t number = std::get<std::uint64_t>(value);
    signed_hashes_ ? msgpack::write_signed(body_, static_cast<std::int64_t>(number))
                   : msgpack::write_unsigned(body_, number);
  }
  void write_token(TokenId id) { msgpack::write_unsigned(body_, static_cast<std::uint32_t>(id)); }
  void write_key(const kv::ExtraKey& key) {
    if (const auto* name = std::get_if<std::string>(&key)) {
      msgpack::write_text(body_, *name);
    } else if (const auto* media = std::get_if<kv::MediaKey>(&key)) {
      msgpack::write_array(body_, 2);
      msgpack::write_text(body_, media->id);
      msgpack::write_signed(body_, media->offset);
    } else {
      body_.append(std::get<kv::OpaqueKey>(key).msgpack);
    }
  }

  const bool maps_;
  const bool signed_hashes_;
  std::string body_;
  std::size_t count_ = 0;
  std::size_t kept_ = 0;
  std::size_t kept_bytes_ = 0;
};

/// What follows the fixed part. Tuples have no place for the owner and the session.
void write_place(EventWriter& writer, const CachePlace& place) {
  writer.number("group_idx", place.group_idx);
  writer.text("kv_cache_spec_kind", place.spec_kind);
  writer.number("kv_cache_spec_sliding_window", place.sliding_window);
  writer.text("locality", place.locality);
  // In a shorter tail a window without a group would be read as the group.
  if (!writer.maps() && place.sliding_window && !place.group_idx) writer.keep();
  if (writer.maps()) writer.text("ownership", place.ownership);
  writer.text("source_kind", place.source_kind);
}

void write_event(const BlockStored& stored, WireStyle style, std::string& out) {
  EventWriter writer(style, kStoredTag);
  const bool vllm = !is_sglang(style);
  writer.hashes(stored.block_hashes);
  writer.parent(stored.parent);
  writer.tokens(stored);
  writer.number("block_size", stored.block_size);
  writer.number("lora_id", stored.lora_id, true);
  if (style == WireStyle::kSglangTuples) writer.keep();
  writer.text("medium", stored.place.medium, vllm);
  if (style == WireStyle::kSglangTuples) {
    writer.salt_metadata(stored.cache_salt);
    return writer.finish(out);
  }
  writer.text("lora_name", stored.lora_name, vllm);
  writer.keep();
  writer.extra_keys(stored.extra_keys);
  write_place(writer, stored.place);
  if (writer.maps()) {
    writer.text("cache_salt", stored.cache_salt);
    writer.text("session_id", stored.session_id);
  }
  writer.finish(out);
}

void write_event(const BlockRemoved& removed, WireStyle style, std::string& out) {
  EventWriter writer(style, kRemovedTag);
  writer.hashes(removed.block_hashes);
  writer.text("medium", removed.place.medium, !is_sglang(style));
  if (!is_sglang(style)) writer.keep();
  if (style != WireStyle::kSglangTuples) write_place(writer, removed.place);
  writer.finish(out);
}

void write_event(const AllBlocksCleared& cleared, WireStyle style, std::string& out) {
  EventWriter writer(style, kClearedTag);
  writer.text("source_kind", cleared.source_kind);
  writer.finish(out);
}

}  // namespace

Result<Decoded> decode(std::string_view payload) { return Decoder(payload).run(); }

void encode(const kv::KvEventBatch& batch, WireStyle style, std::string& out) {
  // vLLM leaves out a rank that is not set; SGLang writes nil.
  const bool has_rank = batch.data_parallel_rank.has_value();
  msgpack::write_array(out, has_rank || is_sglang(style) ? 3 : 2);
  msgpack::write_double(out, batch.timestamp_s);
  msgpack::write_array(out, batch.events.size());
  for (const kv::KvEvent& event : batch.events) {
    std::visit([&](const auto& each) { write_event(each, style, out); }, event);
  }
  if (has_rank) {
    msgpack::write_signed(out, *batch.data_parallel_rank);
  } else if (is_sglang(style)) {
    msgpack::write_nil(out);
  }
}

}  // namespace kvern::engine::events

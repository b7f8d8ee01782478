#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <forward_list>
#include <functional>
#include <initializer_list>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kvern_vocab.h"
#include "llama.h"  // its types only; nothing of it is linked

namespace kvern_vocab {

#include "llama_shim.h"
// The fetched sources as staged by CMake: their own includes find empty files there. The implementation struct of
// llama_vocab is opened up, since its list of special tokens has to be taken out (see Vocabulary's constructor).
#define private public
#include "staged/llama-vocab.h"
#undef private
#include "staged/unicode.h"
#include "text_cutters.h"
#include "staged/unicode-data.cpp"
#include "staged/unicode.cpp"
#include "staged/llama-vocab.cpp"

struct Vocabulary::Impl {
  llama_vocab vocab;
  bool general_regex = false;
};

namespace {

/// True when a rule for cutting text has no hand-written cutter, so that std::regex does it: probed, not listed, since
/// the cutter answers with nothing exactly then.
bool needs_general_regex(const llama_vocab& vocab) {
  if (vocab.get_type() != LLAMA_VOCAB_TYPE_BPE) return false;
  const auto* tokenizer = static_cast<const llm_tokenizer_bpe*>(vocab.pimpl->tokenizer.get());
  for (const std::string& rule : tokenizer->regex_exprs) {
    if (unicode_regex_split_custom("a", rule, {1}).empty()) return true;
  }
  return false;
}

}  // namespace

Vocabulary::Vocabulary(const Metadata& metadata) : impl_(std::make_unique<Impl>()) {
  gguf_context context;
  for (const auto& [key, value] : metadata) context.entries.emplace_back(&key, &value);
  LLM_KV kv;
  if (const auto it = metadata.find("general.architecture"); it != metadata.end()) kv.architecture = it->second.text;
  llama_model_loader loader{&context, kv};
  impl_->vocab.load(loader, kv);
  if (impl_->vocab.get_type() == LLAMA_VOCAB_TYPE_NONE) throw std::runtime_error("the model has no vocabulary");
  impl_->general_regex = needs_general_regex(impl_->vocab);
  // Which special tokens may stand where is the caller's business: it knows who wrote the text.
  impl_->vocab.pimpl->cache_special_tokens.clear();
}

Vocabulary::~Vocabulary() = default;

std::uint32_t Vocabulary::size() const { return impl_->vocab.n_tokens(); }

Kind Vocabulary::kind(std::int32_t token) const {
  const llama_vocab& vocab = impl_->vocab;
  if (vocab.is_control(token)) return Kind::kControl;
  if (vocab.is_user_defined(token)) return Kind::kUserDefined;
  if (vocab.is_unknown(token)) return Kind::kUnknown;
  if (vocab.is_unused(token)) return Kind::kUnused;
  if (vocab.is_byte(token)) return Kind::kByte;
  return Kind::kNormal;
}

const std::string& Vocabulary::spelling(std::int32_t token) const { return impl_->vocab.get_token_data(token).text; }
const std::string& Vocabulary::piece(std::int32_t token) const { return impl_->vocab.token_to_piece(token); }
bool Vocabulary::ends_generation(std::int32_t token) const { return impl_->vocab.is_eog(token); }
bool Vocabulary::strips_left(std::int32_t token) const {
  return (impl_->vocab.token_get_attr(token) & LLAMA_TOKEN_ATTR_LSTRIP) != 0;
}
bool Vocabulary::strips_right(std::int32_t token) const {
  return (impl_->vocab.token_get_attr(token) & LLAMA_TOKEN_ATTR_RSTRIP) != 0;
}
std::int32_t Vocabulary::bos() const { return impl_->vocab.token_bos(); }
std::int32_t Vocabulary::eos() const { return impl_->vocab.token_eos(); }
std::int32_t Vocabulary::unknown() const { return impl_->vocab.token_unk(); }
std::string Vocabulary::type_name() const { return impl_->vocab.type_name(); }
bool Vocabulary::general_regex() const { return impl_->general_regex; }

void Vocabulary::tokenize(const std::string& text, bool add_special, std::vector<std::int32_t>& out) const {
  const std::vector<llama_token> tokens = impl_->vocab.tokenize(text, add_special, false);
  out.insert(out.end(), tokens.begin(), tokens.end());
}

void Vocabulary::spell_out(const std::string& text, std::vector<std::int32_t>& out) const {
  const llama_vocab& vocab = impl_->vocab;
  const bool byte_encoded = vocab.get_type() == LLAMA_VOCAB_TYPE_BPE && !vocab.get_escape_whitespaces();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = byte_encoded ? 1 : std::min(unicode_len_utf8(text[at]), text.size() - at);
    const std::string character = text.substr(at, bytes);
    at += bytes;
    const llama_token token =
        vocab.text_to_token(byte_encoded ? unicode_byte_to_utf8(static_cast<std::uint8_t>(character[0])) : character);
    if (token != LLAMA_TOKEN_NULL && vocab.is_normal(token)) {
      out.push_back(token);
      continue;
    }
    for (const char byte : character) {
      try {
        out.push_back(vocab.byte_to_token(static_cast<std::uint8_t>(byte)));
      } catch (const std::exception&) {  // no token for this byte
      }
    }
  }
}

}  // namespace kvern_vocab

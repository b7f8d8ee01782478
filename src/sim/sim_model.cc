#include "sim/sim_model.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "prompt/detokenizer.h"

namespace kvern::sim {
namespace {

constexpr TokenId kBase = static_cast<TokenId>(kLetters.size());

void encode_bytes(std::string_view text, Tokens& out) {
  while (!text.empty()) {
    TokenId word = 0;
    bool is_word = text.size() >= 3;
    for (std::size_t i = 0; is_word && i < 3; ++i) {
      const auto letter = kLetters.find(text[i]);
      is_word = letter != std::string_view::npos;
      word = word * kBase + static_cast<TokenId>(letter);
    }
    out.push_back(is_word ? word : kFirstByte + static_cast<unsigned char>(text.front()));
    text.remove_prefix(is_word ? 3 : 1);
  }
}

/// The stop string that is complete first in `text`, of two at the same byte the longer.
struct Match {
  std::size_t from = 0;
  std::size_t to = 0;
  std::string string;
};
std::optional<Match> first_match(std::string_view text, const std::vector<std::string>& strings) {
  std::optional<Match> first;
  for (const auto& string : strings) {
    const std::size_t from = text.find(string);
    if (from == std::string_view::npos) continue;
    const std::size_t to = from + string.size();
    if (!first || to < first->to || (to == first->to && from < first->from)) first = Match{from, to, string};
  }
  return first;
}

}  // namespace

Tokens SimTokenizer::encode(std::span<const prompt::Span> spans, std::string_view) const {
  Tokens tokens;
  for (const auto& span : spans) encode_bytes(span.text, tokens);
  return tokens;
}

Tokens SimTokenizer::encode_text(std::string_view text, bool, std::string_view) const {
  Tokens tokens;
  encode_bytes(text, tokens);
  return tokens;
}

std::string SimTokenizer::piece(TokenId token, bool special) const {
  if (token == kEndToken) return special ? "<end>" : "";
  if (token >= kFirstByte) return {static_cast<char>(token - kFirstByte)};
  const auto letter = [](TokenId index) { return kLetters[static_cast<std::size_t>(index)]; };
  return {letter(token / (kBase * kBase)), letter(token / kBase % kBase), letter(token % kBase)};
}

ModelState read(ModelState state, TokenId token) noexcept {
  state = (state ^ (static_cast<std::uint64_t>(token) + 1)) * 0x9FB21C651E98DF25ULL;
  return state ^ (state >> 29U);
}

TokenId next_token(ModelState state, bool may_stop) noexcept {
  const std::uint64_t drawn = state * 0xD6E8FEB86659FD93ULL;
  switch ((drawn >> 32U) % 50) {
    case 0: return may_stop ? kEndToken : 0;
    case 1: return kFirstByte + 0xC3;  // the two halves of an e with an acute accent
    case 2: return kFirstByte + 0xA9;
    default: return static_cast<TokenId>((drawn >> 40U) % kWords);
  }
}

ExpectedAnswer expected_answer(std::span<const TokenId> prompt, std::uint32_t max_tokens,
                               const ir::Stopping& stopping) {
  const SimTokenizer tokenizer;
  prompt::Detokenizer detokenizer(tokenizer, false);
  ModelState state = kNothingRead;
  for (const TokenId token : prompt) state = read(state, token);

  ExpectedAnswer answer;
  std::size_t exempt = 0;           // bytes of text made by the first min_tokens tokens: no stop string counts there
  std::vector<std::size_t> length;  // of the text, after each token
  for (bool going = true; going;) {
    const bool may_stop = answer.completion_tokens >= stopping.min_tokens;
    const TokenId token = next_token(state, may_stop);
    ++answer.completion_tokens;
    if (may_stop && ((token == kEndToken && !stopping.ignore_eos) ||
                     std::ranges::find(stopping.token_ids, token) != stopping.token_ids.end())) {
      going = false;
    } else {
      detokenizer.add(token, answer.text);
      state = read(state, token);
      if (answer.completion_tokens == max_tokens) {
        answer.reason = ir::FinishReason::kLength;
        going = false;
      }
    }
    if (!going) detokenizer.finish(answer.text);
    if (answer.completion_tokens <= stopping.min_tokens) exempt = answer.text.size();
    length.push_back(answer.text.size());
  }
  const auto match = first_match(std::string_view(answer.text).substr(exempt), stopping.strings);
  if (!match) return answer;
  answer.reason = ir::FinishReason::kStopString;
  answer.stop_string = match->string;
  const auto token = std::ranges::lower_bound(length, exempt + match->to);
  KV_CHECK(token != length.end());
  answer.completion_tokens = static_cast<std::uint32_t>(token - length.begin()) + 1;
  answer.text.resize(exempt + match->from);
  return answer;
}

}  // namespace kvern::sim

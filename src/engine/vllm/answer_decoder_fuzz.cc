// Any bytes of a worker, in any two pieces: never a fault, the same events for both splits, one end at most, and no
// token that could not be.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/vllm/answer_decoder.h"

namespace {

using namespace kvern;
using engine::EngineEvent;

std::vector<EngineEvent> decode(std::string_view first, std::string_view second, bool logprobs) {
  engine::AnswerDecoderOptions options;
  options.prompt_tokens = 3;
  options.max_tokens = 20;
  options.vocab_size = 1000;
  options.is_end = [](TokenId token) { return token == 2; };
  options.line_bytes_max = 6000;
  if (logprobs) options.logprobs = 2;
  engine::AnswerDecoder decoder(std::move(options));
  std::vector<EngineEvent> events;
  decoder.feed(first, events);
  decoder.feed(second, events);
  decoder.end(events);
  KV_CHECK(decoder.over());
  return events;
}

Tokens check(const std::vector<EngineEvent>& events) {
  Tokens tokens;
  std::size_t ends = 0;
  for (const auto& event : events) {
    KV_CHECK(ends == 0);
    if (const auto* output = std::get_if<engine::Output>(&event.body)) {
      KV_CHECK(std::holds_alternative<engine::Accepted>(events.front().body));
      for (const TokenId token : output->tokens) KV_CHECK(token >= 0 && token < 1000);
      tokens.insert(tokens.end(), output->tokens.begin(), output->tokens.end());
    }
    if (const auto* finished = std::get_if<engine::Finished>(&event.body)) {
      KV_CHECK(finished->completion_tokens >= tokens.size() && finished->completion_tokens <= 20);
      KV_CHECK(finished->cached_tokens.value_or(0) <= 3);
      ++ends;
    }
    ends += std::holds_alternative<engine::Failed>(event.body) ? 1 : 0;
  }
  KV_CHECK(ends == 1 && tokens.size() <= 20);
  return tokens;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const bool logprobs = (data[0] & 1U) != 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = std::min<std::size_t>(bytes.size(), (std::size_t{data[0]} << 8U | data[1]) / 2);
  const auto whole = decode(bytes, {}, logprobs);
  const auto split = decode(bytes.substr(0, cut), bytes.substr(cut), logprobs);
  KV_CHECK(check(whole) == check(split));
  KV_CHECK(whole.size() == split.size() && whole.back().body.index() == split.back().body.index());
  return 0;
}

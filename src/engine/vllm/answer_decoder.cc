#include "engine/vllm/answer_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvern::engine {
namespace {

/// The echo of the prompt stands in the first event, which for a long prompt comes in many reads. The numbers need not
/// be kept: this text cannot stand inside a JSON string, where its quote would have a backslash before it.
constexpr std::string_view kEcho = "\"prompt_token_ids\":[";
constexpr std::string_view kData = "data:";
/// Shorter lines are kept whole.
constexpr std::size_t kEchoLookFrom = 4096;

Error garbage() { return fail(ErrorCode::kEngine, "The worker's answer cannot be understood."); }

}  // namespace

void AnswerDecoder::feed(std::string_view bytes, std::vector<EngineEvent>& out) {
  while (!bytes.empty() && !over_) {
    if (skipping_echo_) {
      const std::size_t close = bytes.find_first_of("]\n");
      if (close == std::string_view::npos) return;
      if (bytes[close] == '\n') return fail(garbage(), out);
      bytes.remove_prefix(close);
      skipping_echo_ = false;
    }
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) return hold(bytes, out);
    std::string_view line = bytes.substr(0, newline);
    bytes.remove_prefix(newline + 1);
    // Long lines are held however they come, so that they mean the same in one piece and in many.
    if (held_.empty() && line.size() <= std::min(kEchoLookFrom, options_.line_bytes_max)) {
      take_line(line, out);  // as it lies in the read buffer
      continue;
    }
    hold(line, out);
    if (over_) return;
    take_line(held_, out);
    held_.clear();
    if (held_.capacity() > kEchoLookFrom) held_ = std::string();
  }
}

void AnswerDecoder::hold(std::string_view bytes, std::vector<EngineEvent>& out) {
  held_ += bytes;
  if (held_.size() > kEchoLookFrom && !accepted_ && held_.starts_with(kData)) {
    const std::size_t echo = std::string_view(held_).find(kEcho);
    if (echo != std::string_view::npos) {
      const std::size_t begin = echo + kEcho.size();
      const std::size_t close = std::string_view(held_).find(']', begin);
      held_.erase(begin, close == std::string_view::npos ? close : close - begin);
      skipping_echo_ = close == std::string_view::npos;
    }
  }
  if (held_.size() > options_.line_bytes_max) {
    fail(kvern::fail(ErrorCode::kEngine, "The worker sent a line longer than allowed."), out);
  }
}

void AnswerDecoder::take_line(std::string_view line, std::vector<EngineEvent>& out) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || line.front() == ':') return;  // between events, or a comment that keeps the connection alive
  if (!line.starts_with(kData)) {
    // Other fields of an event (event, id, retry) say nothing here.
    if (line.find(':') != std::string_view::npos && line.front() != '{') return;
    return fail(garbage(), out);
  }
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (line == "[DONE]") {
    if (cause_) return finish(out);
    return fail(kvern::fail(ErrorCode::kEngine, "The worker ended its answer without a reason."), out);
  }
  chunk_ = Chunk();
  if (!read_chunk(line, chunk_)) return fail(garbage(), out);
  take_chunk(chunk_, out);
}

void AnswerDecoder::take_chunk(Chunk& chunk, std::vector<EngineEvent>& out) {
  if (chunk.failed) {
    error_type_ = std::move(chunk.error_type);
    const bool is_busy = chunk.error_code == 429 || chunk.error_code == 503;
    return fail(
        kvern::fail(is_busy ? ErrorCode::kUnavailable : ErrorCode::kEngine, "The worker failed on this request."), out);
  }
  if (chunk.usage) take_usage(*chunk.usage);
  if (!chunk.has_choice) {
    if (cause_ && chunk.usage) finish(out);
    return;
  }
  if (cause_) return fail(garbage(), out);  // more after the end
  if (chunk.has_text && !chunk.has_token_ids) {
    return fail(kvern::fail(ErrorCode::kUnavailable, "The worker does not return token ids."), out);
  }
  take_tokens(chunk, out);
  if (over_) return;
  switch (chunk.finish) {
    case Chunk::Finish::kNone: break;
    case Chunk::Finish::kStop: cause_ = chunk.stop_token ? StopCause::kStopToken : StopCause::kEos; break;
    case Chunk::Finish::kLength: cause_ = StopCause::kLength; break;
    case Chunk::Finish::kOther: fail(kvern::fail(ErrorCode::kEngine, "The worker broke off this request."), out); break;
  }
}

/// The last token of an answer that stopped is the one that stopped it, unless a worker leaves it out.
bool AnswerDecoder::is_stopper(const Chunk& chunk) const {
  if (chunk.finish != Chunk::Finish::kStop || chunk.tokens.empty()) return false;
  const TokenId last = chunk.tokens.back();
  return chunk.stop_token ? *chunk.stop_token == last : options_.is_end && options_.is_end(last);
}

void AnswerDecoder::take_tokens(Chunk& chunk, std::vector<EngineEvent>& out) {
  if (chunk.tokens.empty()) return;
  if (chunk.tokens.size() > options_.max_tokens - tokens_) {
    return fail(kvern::fail(ErrorCode::kEngine, "The worker sent more tokens than were asked for."), out);
  }
  for (const TokenId token : chunk.tokens) {
    if (static_cast<std::uint32_t>(token) >= options_.vocab_size) {
      return fail(kvern::fail(ErrorCode::kEngine, "The worker sent a token outside the vocabulary."), out);
    }
  }
  if (options_.logprobs) {
    if (chunk.logprobs.size() != chunk.tokens.size()) {
      return fail(kvern::fail(ErrorCode::kEngine, "The worker left log probabilities out."), out);
    }
    for (auto& entry : chunk.logprobs) {
      // vLLM adds the chosen token where it is not among the likeliest.
      if (entry.top.size() > *options_.logprobs) entry.top.resize(*options_.logprobs);
      for (const auto& [token, logprob] : entry.top) {
        if (static_cast<std::uint32_t>(token) >= options_.vocab_size) return fail(garbage(), out);
      }
    }
  } else {
    chunk.logprobs.clear();
  }
  tokens_ += static_cast<std::uint32_t>(chunk.tokens.size());
  accept(out);
  if (is_stopper(chunk)) {
    chunk.tokens.pop_back();
    if (!chunk.logprobs.empty()) chunk.logprobs.pop_back();
    if (chunk.tokens.empty()) return;
  }
  out.push_back({options_.id, Output{std::move(chunk.tokens), {}, std::move(chunk.logprobs)}});
}

void AnswerDecoder::take_usage(const ChunkUsage& usage) {
  completion_tokens_ = usage.completion_tokens;
  if (usage.cached_tokens) cached_ = std::min(*usage.cached_tokens, options_.prompt_tokens);
}

void AnswerDecoder::accept(std::vector<EngineEvent>& out) {
  if (accepted_) return;
  accepted_ = true;
  out.push_back({options_.id, Accepted{options_.prompt_tokens, cached_, options_.worker}});
}

void AnswerDecoder::finish(std::vector<EngineEvent>& out) {
  if (!cached_ && options_.tells_cached) cached_ = 0;
  accept(out);
  over_ = true;
  Finished finished;
  finished.cause = *cause_;
  // The worker may count a token more than it sent: the one that stopped it.
  finished.completion_tokens = std::clamp(completion_tokens_.value_or(tokens_), tokens_, options_.max_tokens);
  finished.cached_tokens = cached_;
  out.push_back({options_.id, finished});
}

void AnswerDecoder::end(std::vector<EngineEvent>& out) {
  if (over_) return;
  if (cause_ && held_.empty()) return finish(out);
  fail(kvern::fail(ErrorCode::kUnavailable, "The worker broke off its answer."), out);
}

void AnswerDecoder::fail(Error error, std::vector<EngineEvent>& out) {
  if (over_) return;
  over_ = true;
  failed_ = true;
  out.push_back({options_.id, Failed{std::move(error)}});
}

}  // namespace kvern::engine

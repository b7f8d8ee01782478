// One request, after its dialect and before any model: the only thing that crosses from `api` to `pipeline`. Whatever a
// worker is sent is built from these fields, so nothing of a client passes through raw.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/strong_id.h"
#include "base/token.h"
#include "ir/block.h"

namespace kvern::ir {

/// How the next token is drawn. Defaults are OpenAI's; ranges are checked by the dialect.
struct Sampling {
  double temperature = 1.0;  // 0 is greedy
  double top_p = 1.0;
  std::int32_t top_k = 0;  // 0 is off
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;
  std::optional<std::uint64_t> seed;
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logits; each token once
  bool operator==(const Sampling&) const = default;
};

/// When the answer ends.
struct Stopping {
  std::optional<std::uint32_t> max_tokens;  // absent: what is left of the context
  std::uint32_t min_tokens = 0;
  std::vector<std::string> strings;  // not part of the answer
  Tokens token_ids;
  bool ignore_eos = false;
  bool operator==(const Stopping&) const = default;
};

struct ToolChoice {
  enum class Kind : std::uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // kNamed
  bool operator==(const ToolChoice&) const = default;
};

/// Wishes of the client about scheduling and reuse, as it sent them.
struct Hints {
  std::int32_t priority = 0;  // higher is sooner
  std::string session;        // empty: none given
  std::string cache_salt;
  bool operator==(const Hints&) const = default;
};

/// What the model is to continue: a conversation, or a prompt as text or token ids (/v1/completions).
using Prompt = std::variant<std::vector<Message>, std::string, Tokens>;

struct Request {
  RequestId id;
  std::string model;  // as the client wrote it; empty: the only served one
  std::string tenant = "default";
  std::string client_request_id;  // for logs; never a key
  Prompt prompt;
  /// Further prompts of the same request (/v1/completions takes a list), each with choices of its own.
  std::vector<Prompt> more_prompts;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  Sampling sampling;
  Stopping stopping;
  std::uint32_t choices = 1;  // answers to the same prompt, each drawn for itself
  /// Tell how likely each token was, and this many of the likeliest at its place. Absent: do not.
  std::optional<std::uint32_t> logprobs;
  Hints hints;
  /// Switches for the chat template (`chat_template_kwargs`): name to JSON text of a scalar.
  std::map<std::string, std::string> template_options;
  /// Streams of the answer: choice c of prompt p is number p * choices + c.
  std::uint32_t answers() const { return choices * static_cast<std::uint32_t>(1 + more_prompts.size()); }
  bool operator==(const Request&) const = default;
};

}  // namespace kvern::ir

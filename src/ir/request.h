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

/// Names here are prompt names (ir/block.h).
struct ToolChoice {
  enum class Kind : std::uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name = {};                  // kNamed
  bool parallel = true;                   // false: at most one call in an answer
  std::vector<std::string> allowed = {};  // only these may be called; empty: every tool
  bool operator==(const ToolChoice&) const = default;
};

/// What the answer's text must be.
struct ResponseFormat {
  enum class Kind : std::uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string name = {};  // kJsonSchema, like all below
  std::string description = {};
  std::string schema = {};  // exact JSON text
  bool strict = false;
  bool operator==(const ResponseFormat&) const = default;
};

/// How the model is to think. Whatever is left at its default is the model's own habit.
struct Reasoning {
  enum class Mode : std::uint8_t { kDefault, kOff, kOn, kAdaptive };  // adaptive: the model decides when
  enum class Effort : std::uint8_t { kMinimal, kLow, kMedium, kHigh, kXhigh, kMax };
  /// Thinking of earlier turns, which templates treat differently: the template's way, keep all, or drop it.
  enum class History : std::uint8_t { kDefault, kKeep, kDrop };
  Mode mode = Mode::kDefault;
  std::optional<Effort> effort;
  std::optional<std::uint32_t> budget_tokens;  // at most so many tokens of thinking
  History history = History::kDefault;
  bool hidden = false;  // think, but do not show it to the client
  bool operator==(const Reasoning&) const = default;
};
const char* to_string(Reasoning::Effort effort) noexcept;

/// Whose turn this is, by opaque ids of the client. Never interpreted, never part of a prompt.
struct Session {
  std::string id;      // of the whole session; empty: none given
  std::string agent;   // of a subagent inside it; empty: the main one
  std::string parent;  // the session or agent that started this one; empty: none
  bool final = false;  // its last turn
  /// What turns with a common prefix share: the agent, else the session.
  const std::string& key() const noexcept { return agent.empty() ? id : agent; }
  bool operator==(const Session&) const = default;
};

/// Wishes of the client about scheduling and reuse, as it sent them.
struct Hints {
  std::int32_t priority = 0;                   // higher is sooner
  std::uint32_t strict_priority = 0;           // goes before `priority`; higher is sooner
  double latency_sensitivity = 0;              // seconds of head start; an older spelling of priority
  std::optional<std::uint32_t> output_tokens;  // how many the client expects
  bool speculative_prefill = false;            // compute the next turn's prompt when this one ends
  std::string cache_salt;
  std::vector<std::string> annotations;      // side events asked for
  std::vector<std::string> extra_fields;     // facts about the answer asked for
  std::optional<double> timestamp_ms;        // when the request was made, on the clock of a replayed trace
  std::string worker;                        // an administrator's: the name of the one that is to run it; empty: any
  std::optional<std::uint32_t> worker_rank;  // likewise: which of the worker's data-parallel ranks
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
  std::vector<ToolNamespace> tool_namespaces;  // of the tools that have one
  ToolChoice tool_choice;
  ResponseFormat response_format;
  Reasoning reasoning;
  Sampling sampling;
  Stopping stopping;
  std::uint32_t choices = 1;  // answers to the same prompt, each drawn for itself
  /// Tell how likely each token was, and this many of the likeliest at its place. Absent: do not.
  std::optional<std::uint32_t> logprobs;
  Hints hints;
  Session session;
  /// What the client says of itself and of the request, for logs: opaque text, never part of a prompt or a key.
  std::string metadata;
  /// Switches for the chat template (`chat_template_kwargs`): name to JSON text of a scalar.
  std::map<std::string, std::string> template_options;
  /// Streams of the answer: choice c of prompt p is number p * choices + c.
  std::uint32_t answers() const { return choices * static_cast<std::uint32_t>(1 + more_prompts.size()); }
  bool operator==(const Request&) const = default;
};

}  // namespace kvern::ir

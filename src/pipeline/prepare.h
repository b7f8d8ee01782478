// ir::Request to GenerateRequests, one a choice: render, tokenise, check against the model. Pure CPU work, from
// microseconds to tenths of a second by the size of the prompts, so big ones run on the pool.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "ir/request.h"
#include "pipeline/model.h"

namespace kvern::pipeline {

struct Prepared {
  /// One for each of the request's answers(), in their order: the choices of a prompt are equal but for the seed, which
  /// counts up. The first has the request's id; the others are for the caller to name.
  std::vector<engine::GenerateRequest> generate;
  /// The template ended the prompt inside reasoning (`<think>`), so the answer begins there.
  bool starts_in_reasoning = false;
};

/// Prompt tokens of one request, each choice counted: the engine keeps them for every choice.
inline constexpr std::size_t kPromptTokensOfAllChoicesMost = 16U << 20U;

/// Errors: kInvalidRequest (template, token ids, min_tokens, too many tokens over all choices), kContextLength with
/// both numbers. `max_tokens` beyond what is left of the context is cut to it: harnesses ask for a fixed large number
/// whatever the prompt.
Result<Prepared> prepare(const ir::Request& request, const Model& model);

/// Whose cached blocks and remembered tokens a request shares: its tenant's, and a client's salt splits that further.
std::string cache_namespace(const ir::Request& request);

/// The first prompt's tokens alone; what /tokenize answers.
Result<Tokens> prompt_tokens(const ir::Request& request, const Model& model);

/// Text of `bytes` that cannot fit whatever its tokens is refused by its length (kContextLength, naming `field`):
/// tokenising tens of megabytes takes seconds.
std::optional<Error> check_text(const std::string& field, const Model& model, std::size_t bytes);

/// Rough size of the work in bytes, to decide where it runs. O(blocks).
std::size_t prompt_bytes(const ir::Request& request);

}  // namespace kvern::pipeline

// `nvext` of an answer, NVIDIA Dynamo's extension: facts about how it was made, for the clients that ask for them by
// `nvext.extra_fields`. Every dialect has it: in the document, or in the last event of a stream.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/token.h"
#include "ir/event.h"

namespace kvern::api {

/// What is known of an answer when it ends.
struct AnswerFacts {
  std::string worker;                    // who ran it; empty: unknown, or not for this client
  std::chrono::milliseconds received{};  // when the request came, unix time
  std::optional<double> first_token_ms;  // since then
  double total_ms = 0;                   // likewise
  ir::Usage usage;                       // of all choices
  std::string stop_string;               // that ended it; empty: none
};

/// The facts that `extra_fields` asks for and that are known, as one JSON object; empty when there is none. Known are
/// worker_id, timing and stop_reason. A worker whose name is a number is given as one, as Dynamo's are.
std::string render_extension(std::span<const std::string> extra_fields, const AnswerFacts& facts);

/// What a query for a worker is answered with: the one that would run the request, where it is known, and the prompt.
std::string render_query(std::string_view worker, const Tokens& prompt);

/// Appends `,"nvext":<extension>`; nothing for an empty one. For encoders.
void append_extension(std::string_view extension, std::string& out);

}  // namespace kvern::api

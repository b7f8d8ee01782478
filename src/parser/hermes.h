// The Hermes family: `<think>...</think>` reasoning and calls as `<tool_call>{"name": ..., "arguments":
// {...}}</tool_call>` (Hermes, Qwen2.5, Qwen3, QwQ, SmolLM3, Granite 4). One pass, O(1) a byte, the same result for
// every split.
//
// Reasoning
//   - `<think>` opens reasoning where only white space came since the start, a call or a `</think>`; elsewhere it is
//   text.
//   - `</think>` closes it; a stray one is dropped. A second `<think>` at its start is dropped.
//   - A call inside reasoning ends the reasoning and counts.
// Calls
//   - `<tool_call>` opens a call only if `{` follows after white space; else it is text, and so is its `</tool_call>`.
//   - The name is held until it is complete; from then on arguments leave as they arrive, in their exact text.
//   Arguments
//     that come before the name wait for it, up to 64 KiB. `parameters` stands for `arguments`; null or none is "{}".
//   - Markers inside JSON strings are data. A missing `</tool_call>` is made up for by the end of the JSON or by the
//   next
//     `<tool_call>`. Broken JSON behind a name: the call is closed as it stands, the rest up to the marker is dropped.
//     Broken JSON without a name is text, without its markers. A call without its name at a cut is dropped.
// White space
//   - Dropped: around reasoning, after `</think>`, before a call, between calls, after the last call. Kept: inside
//   text,
//     before text that follows a call, at the end of an answer. More than 256 bytes of it in a row count as text.
// At a cut, four or more bytes of a marker are dropped, fewer are text.
#pragma once

#include <memory>

#include "parser/parser.h"

namespace kvern::parser {

struct HermesOptions {
  /// The prompt ends with `<think>`: the answer begins inside reasoning.
  bool starts_in_reasoning = false;
  /// Without, call markers are text (requests without tools). Calls of tools that were not declared pass: the client
  /// judges.
  bool parse_calls = true;
};

std::unique_ptr<Parser> make_hermes_parser(const HermesOptions& options);

}  // namespace kvern::parser

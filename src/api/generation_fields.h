// The fields that OpenAI's two generating endpoints share: sampling, stopping, hints, and what neither serves yet.
#pragma once

#include "api/fields.h"
#include "ir/request.h"

namespace kvern::api {

/// Top-level fields of a body into `request` and `stream`, `include_usage`. Faults go to `fields.decoding()`.
struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
};
StreamOptions decode_stream_options(const Fields& fields);
/// `n`: how many answers to each prompt.
void decode_choices(const Fields& fields, std::uint32_t& out);
/// With `logit_bias`, an object from token ids to numbers.
void decode_sampling(const Fields& fields, ir::Sampling& out);
void decode_stopping(const Fields& fields, ir::Stopping& out);
/// `priority`, `cache_salt`, `prompt_cache_key` and `nvext`, of which the first two win over the last. Called when all
/// else of the request is read. What has no effect is named in `left_out`.
void decode_hints(const Fields& fields, ir::Request& request, std::vector<std::string>& left_out);
/// Stop strings: a string or an array of strings.
void decode_stop(const Fields& fields, std::string_view name, std::vector<std::string>& out);
/// Harnesses and MCP bring dots, dashes and other scripts into names, so only what would break a line is refused.
bool is_tool_name(std::string_view name);
/// `response_format`: only text is served.
void check_response_format(const Fields& fields);
/// `metadata` and `user`: typed and bounded, then left alone.
void check_labels(const Fields& fields);
/// Token ids of 0 .. 2^31-1; the vocabulary is checked where it is known.
void decode_token_ids(json::Value array, Limit limit, const Path& path, Decoding& decoding, Tokens& out);
/// `chat_template_kwargs`: scalars whose names are no part of rendering itself. A `chat_template` is always refused.
void decode_template_options(const Fields& fields, std::map<std::string, std::string>& out);

}  // namespace kvern::api

#include "api/vllm_wire/completion_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/vllm_wire/vllm_error.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

void append_ids(std::span<const TokenId> tokens, std::string& out) {
  for (const TokenId token : tokens) {
    if (!out.empty() && out.back() != '[') out += ',';
    json::append_number(out, token);
  }
}

void append_list(std::span<const TokenId> tokens, std::string& out) {
  out += '[';
  append_ids(tokens, out);
  out += ']';
}

void append_usage(const WireUsage& usage, bool whole, std::string& out) {
  fmt::format_to(std::back_inserter(out), R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{})",
                 usage.prompt_tokens, std::uint64_t{usage.prompt_tokens} + usage.completion_tokens,
                 usage.completion_tokens);
  if (usage.cached_tokens) {
    fmt::format_to(std::back_inserter(out), R"(,"prompt_tokens_details":{{"cached_tokens":{}}})", *usage.cached_tokens);
  } else if (whole) {
    out += R"(,"prompt_tokens_details":null)";
  }
  out += whole ? R"(,"completion_tokens_details":null})" : "}";
}

void comma(std::string& list) {
  if (!list.empty()) list += ',';
}

/// JSON has no infinity.
double finite(float logprob) { return std::max(logprob, -9999.0F); }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

WireAnswer::WireAnswer(WireHead head, WireAnswerOptions options, Tokens prompt)
    : head_(std::move(head)), options_(options), prompt_(std::move(prompt)), usage_due_(options.early_usage) {
  prefix_ = R"({"id":)";
  json::append_quoted(prefix_, head_.id);
  prefix_ += R"(,"object":"text_completion","created":)";
  json::append_number(prefix_, head_.created);
  prefix_ += R"(,"model":)";
  json::append_quoted(prefix_, head_.model);
  prefix_ += R"(,"choices":[)";
}

void WireAnswer::append_logprobs(const WirePiece& piece) {
  for (const WireLogprob& entry : piece.logprobs) {
    comma(offsets_);
    json::append_number(offsets_, static_cast<std::int64_t>(text_offset_));
    text_offset_ += characters(entry.token);
    comma(token_logprobs_);
    fmt::format_to(std::back_inserter(token_logprobs_), "{}", finite(entry.logprob));
    comma(tokens_);
    json::append_quoted(tokens_, entry.token);
    comma(tops_);
    tops_ += '{';
    bool first = true;
    for (const auto& [token, logprob] : entry.top) {
      if (!first) tops_ += ',';
      first = false;
      json::append_quoted(tops_, token);
      fmt::format_to(std::back_inserter(tops_), ":{}", finite(logprob));
    }
    tops_ += '}';
  }
}

void WireAnswer::piece(const WirePiece& piece, const WireUsage& so_far, std::string& out) {
  if (options_.logprobs) append_logprobs(piece);
  if (!options_.stream) {
    text_ += piece.text;
    append_ids(piece.tokens, token_ids_);
    finish_reason_ = piece.finish_reason;
    stop_reason_ = piece.stop_reason;
    return;
  }
  out += "data: ";
  out += prefix_;
  out += R"({"index":0,"text":)";
  json::append_quoted(out, piece.text);
  out += R"(,"logprobs":)";
  if (options_.logprobs) {
    fmt::format_to(std::back_inserter(out),
                   R"({{"text_offset":[{}],"token_logprobs":[{}],"tokens":[{}],"top_logprobs":[{}]}})", offsets_,
                   token_logprobs_, tokens_, tops_);
    for (auto* list : {&offsets_, &token_logprobs_, &tokens_, &tops_}) list->clear();
  } else {
    out += "null";
  }
  out += R"(,"finish_reason":)";
  piece.finish_reason.empty() ? void(out += "null") : json::append_quoted(out, piece.finish_reason);
  out += R"(,"stop_reason":)";
  out += piece.stop_reason.empty() ? "null" : piece.stop_reason;
  out += R"(,"prompt_token_ids":)";
  if (options_.return_token_ids && !prompt_.empty()) {
    append_list(prompt_, out);
    prompt_ = Tokens();  // in the first event only
  } else {
    out += "null";
  }
  out += R"(,"token_ids":)";
  options_.return_token_ids ? append_list(piece.tokens, out) : void(out += "null");
  out += "}]";
  if (options_.continuous_usage) {
    out += R"(,"usage":)";
    append_usage({so_far.prompt_tokens, so_far.completion_tokens, {}}, false, out);
  } else if (std::exchange(usage_due_, false)) {
    out += R"(,"usage":)";
    append_usage(so_far, false, out);
  }
  if (!piece.finish_reason.empty() && !options_.include_usage) {
    out += R"(,"system_fingerprint":)";
    json::append_quoted(out, head_.fingerprint);
  }
  out += "}\n\n";
}

void WireAnswer::end(const WireUsage& usage, std::string& out) {
  if (options_.stream) {
    if (options_.include_usage) {
      out += "data: ";
      out += prefix_;
      out += R"(],"usage":)";
      append_usage(usage, false, out);
      out += R"(,"system_fingerprint":)";
      json::append_quoted(out, head_.fingerprint);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
    return;
  }
  out += prefix_;
  out += R"({"index":0,"text":)";
  json::append_quoted(out, text_);
  out += R"(,"logprobs":)";
  if (options_.logprobs) {
    fmt::format_to(std::back_inserter(out),
                   R"({{"text_offset":[{}],"token_logprobs":[{}],"tokens":[{}],"top_logprobs":[{}]}})", offsets_,
                   token_logprobs_, tokens_, tops_);
  } else {
    out += "null";
  }
  out += R"(,"finish_reason":)";
  json::append_quoted(out, finish_reason_);
  out += R"(,"stop_reason":)";
  out += stop_reason_.empty() ? "null" : stop_reason_;
  out += R"(,"token_ids":)";
  out += options_.return_token_ids ? "[" + token_ids_ + "]" : "null";
  out += R"(,"prompt_logprobs":null,"prompt_token_ids":)";
  options_.return_token_ids ? append_list(prompt_, out) : void(out += "null");
  out += R"(,"routed_experts":null}],"service_tier":null,"system_fingerprint":)";
  json::append_quoted(out, head_.fingerprint);
  out += R"(,"usage":)";
  append_usage(usage, true, out);
  out += R"(,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null})";
}

void WireAnswer::fail(const Error& error, std::string& out) {
  out += "data: ";
  out += vllm_error(error).body;
  out += "\n\ndata: [DONE]\n\n";
}

}  // namespace kvern::api

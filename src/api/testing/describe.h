// For tests: an ir request as lines of text, events from JSON, goldens on disk.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "api/dialect.h"
#include "base/json_writer.h"

namespace kvern::api::testing {

inline std::string in_quotes(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out;
}

/// One fact a word; what is empty or has its default is left out.
struct Describe {
  std::ostream& out;
  void labelled(const char* label, std::string_view text) const {
    if (!text.empty()) out << " " << label << " " << in_quotes(text);
  }
  void kind(ir::ToolKind kind) const {
    if (kind != ir::ToolKind::kFunction) out << " " << to_string(kind);
  }
  void operator()(const ir::Text& text) const { out << " text " << in_quotes(text.text); }
  void operator()(const ir::Thinking& thinking) const {
    out << " thinking " << in_quotes(thinking.text);
    labelled("signed", thinking.signature);
    labelled("encrypted", thinking.encrypted);
  }
  void operator()(const ir::RedactedThinking& thinking) const { out << " redacted " << in_quotes(thinking.data); }
  void operator()(const ir::Image& image) const {
    out << " image " << image.media_type << " " << image.data;
    labelled("detail", image.detail);
  }
  void operator()(const ir::Document& document) const {
    out << " document " << document.media_type << " " << document.data;
    labelled("text", document.text);
    labelled("title", document.title);
    labelled("context", document.context);
  }
  void operator()(const ir::ToolCall& call) const {
    out << " call " << call.id << " " << ir::prompt_name(call.tool_namespace, call.name) << " "
        << in_quotes(call.arguments);
    kind(call.kind);
  }
  void operator()(const ir::ToolResult& result) const {
    out << " result of " << result.call_id << (result.is_error ? " failed" : "");
    if (!result.name.empty()) out << " by " << result.name;
    kind(result.kind);
    for (const ir::Part& part : result.parts) std::visit(*this, part);
  }
};

inline void describe(const ir::Block& block, std::ostream& out) {
  out << " ";
  std::visit(Describe{out}, block.content);
  if (block.cache) out << " keep " << block.cache->ttl_seconds << " s";
  out << "\n";
}

inline void describe(const ir::Prompt& prompt, std::ostream& out) {
  if (const auto* messages = std::get_if<std::vector<ir::Message>>(&prompt)) {
    for (const ir::Message& message : *messages) {
      out << to_string(message.role) << (message.name.empty() ? "" : " " + message.name) << "\n";
      for (const ir::Block& block : message.blocks) describe(block, out);
    }
  } else if (const auto* text = std::get_if<std::string>(&prompt)) {
    out << "prompt " << in_quotes(*text) << "\n";
  } else {
    out << "prompt";
    for (const TokenId token : std::get<Tokens>(prompt)) out << " " << token;
    out << "\n";
  }
}

inline void describe(const ir::ToolChoice& choice, std::ostream& out) {
  if (choice == ir::ToolChoice{}) return;
  out << "tool_choice " << static_cast<int>(choice.kind) << (choice.parallel ? "" : " one at most");
  if (!choice.name.empty()) out << " " << choice.name;
  for (const std::string& name : choice.allowed) out << " allowed " << name;
  out << "\n";
}

inline void describe(const ir::Reasoning& reasoning, std::ostream& out) {
  if (reasoning == ir::Reasoning{}) return;
  constexpr const char* kModes[] = {"", " off", " on", " adaptive"};
  constexpr const char* kHistories[] = {"", " keep old", " drop old"};
  out << "reasoning" << kModes[static_cast<int>(reasoning.mode)];
  if (reasoning.effort) out << " effort " << to_string(*reasoning.effort);
  if (reasoning.budget_tokens) out << " budget " << *reasoning.budget_tokens;
  out << kHistories[static_cast<int>(reasoning.history)] << (reasoning.hidden ? " hidden" : "") << "\n";
}

inline void describe(const ir::ResponseFormat& format, std::ostream& out) {
  if (format == ir::ResponseFormat{}) return;
  out << "response_format " << static_cast<int>(format.kind) << (format.strict ? " strict " : " ") << format.name << " "
      << format.schema << "\n";
}

inline void describe(const ir::Hints& hints, std::ostream& out) {
  if (hints.strict_priority != 0) out << "strict_priority " << hints.strict_priority << "\n";
  if (hints.latency_sensitivity != 0) out << "latency_sensitivity " << hints.latency_sensitivity << "\n";
  if (hints.output_tokens) out << "output_tokens " << *hints.output_tokens << "\n";
  if (hints.speculative_prefill) out << "speculative_prefill\n";
  if (!hints.cache_salt.empty()) out << "cache_salt " << hints.cache_salt << "\n";
  for (const std::string& name : hints.annotations) out << "annotation " << name << "\n";
  for (const std::string& name : hints.extra_fields) out << "extra_field " << name << "\n";
  if (hints.timestamp_ms) out << "timestamp_ms " << *hints.timestamp_ms << "\n";
  if (!hints.worker.empty()) out << "worker " << hints.worker << "\n";
  if (hints.worker_rank) out << "worker_rank " << *hints.worker_rank << "\n";
}

inline void describe(const ir::Session& session, std::ostream& out) {
  if (session == ir::Session{}) return;
  out << "session " << session.id;
  if (!session.agent.empty()) out << " agent " << session.agent;
  if (!session.parent.empty()) out << " parent " << session.parent;
  out << (session.final ? " final" : "") << "\n";
}

/// One line a fact; what has its default is left out.
inline std::string describe(const ir::Request& request, bool stream) {
  std::ostringstream out;
  out << "model " << in_quotes(request.model) << (stream ? " streamed\n" : "\n");
  describe(request.prompt, out);
  for (const ir::Prompt& prompt : request.more_prompts) describe(prompt, out);
  for (const ir::Tool& tool : request.tools) {
    out << "tool " << ir::prompt_name(tool.tool_namespace, tool.name) << (tool.strict ? " strict " : " ")
        << in_quotes(tool.description) << " " << tool.parameters;
    Describe{out}.kind(tool.kind);
    if (tool.grammar) out << " grammar " << in_quotes(tool.grammar->definition);
    if (tool.cache) out << " keep " << tool.cache->ttl_seconds << " s";
    out << "\n";
  }
  describe(request.tool_choice, out);
  describe(request.reasoning, out);
  describe(request.response_format, out);
  const ir::Sampling sampling;
  const auto number = [&](const char* name, double value, double usual) {
    if (value != usual) out << name << " " << value << "\n";
  };
  number("temperature", request.sampling.temperature, sampling.temperature);
  number("top_p", request.sampling.top_p, sampling.top_p);
  number("top_k", request.sampling.top_k, sampling.top_k);
  number("min_p", request.sampling.min_p, sampling.min_p);
  number("presence_penalty", request.sampling.presence_penalty, 0);
  number("frequency_penalty", request.sampling.frequency_penalty, 0);
  number("repetition_penalty", request.sampling.repetition_penalty, 1);
  number("choices", request.choices, 1);
  if (request.logprobs) out << "logprobs " << *request.logprobs << "\n";
  for (const auto& [token, bias] : request.sampling.logit_bias) out << "bias " << token << " " << bias << "\n";
  if (request.sampling.seed) out << "seed " << *request.sampling.seed << "\n";
  if (request.stopping.max_tokens) out << "max_tokens " << *request.stopping.max_tokens << "\n";
  number("min_tokens", request.stopping.min_tokens, 0);
  for (const std::string& text : request.stopping.strings) out << "stop " << in_quotes(text) << "\n";
  for (const TokenId token : request.stopping.token_ids) out << "stop token " << token << "\n";
  if (request.stopping.ignore_eos) out << "ignore_eos\n";
  number("priority", request.hints.priority, 0);
  describe(request.session, out);
  describe(request.hints, out);
  if (!request.metadata.empty()) out << "metadata " << in_quotes(request.metadata) << "\n";
  for (const auto& [name, value] : request.template_options) out << "option " << name << " = " << value << "\n";
  return out.str();
}

inline std::uint32_t count_of(const boost::json::object& from, const char* key) {
  return from.contains(key) ? boost::json::value_to<std::uint32_t>(from.at(key)) : 0;
}

inline ir::Usage usage_of(const boost::json::object& from) {
  ir::Usage usage;
  usage.prompt_tokens = count_of(from, "prompt");
  if (from.contains("cached")) usage.cached_tokens = count_of(from, "cached");
  usage.completion_tokens = count_of(from, "completion");
  usage.reasoning_tokens = count_of(from, "reasoning");
  return usage;
}

/// A string, or the bytes of one.
inline std::string bytes_of(const boost::json::value& from) {
  if (from.is_string()) return boost::json::value_to<std::string>(from);
  std::string out;
  for (const auto& byte : from.as_array()) out += static_cast<char>(byte.to_number<int>());
  return out;
}

/// "piece", or [piece, [token, log probability, [other token, its log probability]...]...].
inline ir::BlockDelta delta_of(std::uint32_t index, const boost::json::value& from) {
  if (from.is_string()) return {index, boost::json::value_to<std::string>(from)};
  const auto& parts = from.as_array();
  ir::BlockDelta delta{index, boost::json::value_to<std::string>(parts[0])};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto& entry = parts[i].as_array();
    ir::TokenLogprob token{bytes_of(entry[0]), entry[1].to_number<float>(), {}};
    for (std::size_t k = 2; k < entry.size(); ++k)
      token.top.push_back({bytes_of(entry[k].at(0)), entry[k].at(1).to_number<float>()});
    delta.logprobs.push_back(std::move(token));
  }
  return delta;
}

/// Plays one event of a choice whose next block is `index`.
inline void play_one(const boost::json::object& event, std::uint32_t choice, std::uint32_t& index, Encoder& encoder,
                     std::string& out) {
  const auto block = [&](ir::BlockKind kind, const boost::json::array& pieces, std::size_t first) {
    ir::BlockStart start{index, kind, {}, {}};
    if (first == 2) {
      start.call_id = boost::json::value_to<std::string>(pieces[0]);
      start.name = boost::json::value_to<std::string>(pieces[1]);
    }
    encoder.add(choice, start, out);
    for (std::size_t i = first; i < pieces.size(); ++i) encoder.add(choice, delta_of(index, pieces[i]), out);
    encoder.add(choice, ir::BlockStop{index++}, out);
  };
  if (event.contains("start")) encoder.add(choice, ir::Start{usage_of(event), {}}, out);
  if (event.contains("text")) block(ir::BlockKind::kText, event.at("text").as_array(), 0);
  if (event.contains("thinking")) block(ir::BlockKind::kThinking, event.at("thinking").as_array(), 0);
  if (event.contains("call")) block(ir::BlockKind::kToolCall, event.at("call").as_array(), 2);
  if (event.contains("end")) {
    ir::End end;
    const auto reason = boost::json::value_to<std::string>(event.at("end"));
    for (const auto known : {ir::FinishReason::kStopString, ir::FinishReason::kLength, ir::FinishReason::kToolCalls})
      if (reason == to_string(known)) end.reason = known;
    if (end.reason == ir::FinishReason::kStopString) end.stop_string = "x";
    end.usage = usage_of(event);
    encoder.add(choice, end, out);
  }
  if (event.contains("failure")) {
    encoder.add(choice,
                ir::Failure{fail(static_cast<ErrorCode>(event.at("failure").as_int64()),
                                 boost::json::value_to<std::string>(event.at("message")))},
                out);
  }
}

/// Plays events written as JSON: "start", "keep_alive", {"text": piece...}, {"thinking": ...}, {"call": [id, name,
/// piece...]}, {"end": reason, usage...}, {"failure": code number, "message"}; an object may name its "choice".
inline std::string play(const boost::json::array& events, Encoder& encoder) {
  std::string out;
  std::map<std::uint32_t, std::uint32_t> next_block;
  for (const auto& event : events) {
    if (event.is_string()) {
      if (event.as_string() == "keep_alive") {
        encoder.keep_alive(out);
      } else {
        encoder.add(0, ir::Start{}, out);
      }
      continue;
    }
    const std::uint32_t choice = count_of(event.as_object(), "choice");
    play_one(event.as_object(), choice, next_block[choice], encoder, out);
  }
  return out;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Every golden of a folder: NAME.json holds {"body", "events"}, NAME.golden the decoded request and the answer's
/// bytes. With KVERN_GOLDEN=update in the environment the goldens are rewritten, for review as a diff.
inline void check_goldens(const Dialect& dialect, const std::filesystem::path& folder) {
  const char* mode = std::getenv("KVERN_GOLDEN");
  const bool update = mode != nullptr && std::string_view(mode) == "update";
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++count;
    SCOPED_TRACE(entry.path().filename().string());
    const boost::json::object input = boost::json::parse(read_file(entry.path())).as_object();
    const std::string body = boost::json::serialize(input.at("body"));
    auto call = dialect.decode(body, {RequestId{0xC0FFEE}, std::chrono::seconds(1'700'000'000)});
    std::string got;
    if (call) {
      call->encoder->set_model("served");
      got = "# request\n" + describe(call->request, call->stream) + "# answer\n" +
            play(input.at("events").as_array(), *call->encoder) + "\n";
    } else {
      got = "# error\n" + dialect.error(call.error(), {}).body + "\n";
    }
    const auto path = std::filesystem::path(entry.path()).replace_extension(".golden");
    if (update) {
      std::ofstream(path, std::ios::binary) << got;
    } else {
      EXPECT_EQ(got, read_file(path));
    }
  }
  EXPECT_GT(count, 0U);
}

}  // namespace kvern::api::testing

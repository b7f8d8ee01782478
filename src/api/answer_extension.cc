#include "api/answer_extension.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/json_writer.h"

namespace kvern::api {
namespace {

/// Milliseconds to the microsecond.
std::string milliseconds(double value) { return fmt::format("{:.3f}", value); }

void write_worker(std::string_view name, json::Writer& writer) {
  std::uint64_t id = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool is_number = fault == std::errc{} && end == name.data() + name.size() && fmt::to_string(id) == name;
  writer.key("worker_id").begin_object();
  for (const std::string_view key : {"prefill_worker_id", "decode_worker_id"}) {
    writer.key(key);
    is_number ? writer.raw(name) : writer.value(name);
  }
  writer.end_object();
}

void write_timing(const AnswerFacts& facts, json::Writer& writer) {
  writer.key("timing").begin_object().member("request_received_ms", facts.received.count());
  if (facts.first_token_ms) writer.key("ttft_ms").raw(milliseconds(*facts.first_token_ms));
  writer.key("total_time_ms").raw(milliseconds(facts.total_ms));
  const auto& usage = facts.usage;
  if (usage.cached_tokens && usage.prompt_tokens > 0)
    writer.key("kv_hit_rate")
        .raw(fmt::format("{:.4f}", static_cast<double>(*usage.cached_tokens) / usage.prompt_tokens));
  writer.end_object();
}

}  // namespace

std::string render_extension(std::span<const std::string> extra_fields, const AnswerFacts& facts) {
  const auto asks = [&](std::string_view name) { return std::ranges::find(extra_fields, name) != extra_fields.end(); };
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  if (asks("worker_id") && !facts.worker.empty()) write_worker(facts.worker, writer);
  if (asks("timing")) write_timing(facts, writer);
  if (asks("stop_reason")) {
    writer.key("stop_reason");
    facts.stop_string.empty() ? writer.null() : writer.value(facts.stop_string);
  }
  writer.end_object();
  return out == "{}" ? std::string() : out;
}

std::string render_query(std::string_view worker, const Tokens& prompt) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  if (!worker.empty()) write_worker(worker, writer);
  writer.key("token_ids").begin_array();
  for (const TokenId token : prompt) writer.value(token);
  writer.end_array().end_object();
  return out;
}

void append_extension(std::string_view extension, std::string& out) {
  if (extension.empty()) return;
  out += R"(,"nvext":)";
  out += extension;
}

}  // namespace kvern::api

#include "api/extension.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "api/cache_marks.h"
#include "api/generation_fields.h"

namespace kvern::api {
namespace {

// Wide enough to order anything, narrow enough that a wire with the other sign can negate it and a queue can add to it.
constexpr double kPriorityMost = 1'000'000'000;
constexpr std::int64_t kU32Most = std::numeric_limits<std::uint32_t>::max();

bool is_u64(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return fault == std::errc{} && end == digits.data() + digits.size();
}

/// Reads one `nvext`.
class Extension {
 public:
  Extension(const Fields& fields, ir::Request& request, std::vector<std::string>& left_out)
      : fields_(fields), decoding_(fields.decoding()), request_(request), left_out_(left_out) {}

  void read() {
    read_switches();
    strings(fields_, "annotations", request_.hints.annotations);
    strings(fields_, "extra_fields", request_.hints.extra_fields);
    read_hints();
    read_placement();
    read_removed();
    read_ignored();
  }

 private:
  void read_switches() {
    bool greedy = false;
    // Read after the sampling of the body, which it overrides.
    if (fields_.boolean("greed_sampling", greedy) && greedy) request_.sampling.temperature = 0;
    std::uint32_t budget = 0;
    if (fields_.integer("max_thinking_tokens", 0, kU32Most, budget)) request_.reasoning.budget_tokens = budget;
    fields_.string("cache_salt", Limit::kIdBytes, request_.hints.cache_salt);
    double stamp = 0;
    if (fields_.number("request_timestamp_ms", 0, std::numeric_limits<double>::max(), stamp))
      request_.hints.timestamp_ms = stamp;
  }

  void read_hints() {
    const auto object = fields_.object("agent_hints");
    if (!object) return;
    const Path path = fields_.path("agent_hints");
    Asked asked;
    const Fields hints(*object, path, decoding_, &asked);
    ir::Hints& out = request_.hints;
    if (const auto priority = decode_priority(hints, "priority")) out.priority = *priority;
    hints.integer("strict_priority", 0, kU32Most, out.strict_priority);
    std::uint32_t tokens = 0;
    if (hints.integer("osl", 0, kU32Most, tokens)) out.output_tokens = tokens;
    hints.boolean("speculative_prefill", out.speculative_prefill);
    double seconds = 0;
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (hints.number("latency_sensitivity", -kInfinite, kInfinite, seconds))
      out.latency_sensitivity = std::clamp(seconds, 0.0, kPriorityMost);
    asked.list_others(*object, "nvext.agent_hints.", left_out_);
  }

  void read_placement() {
    std::string id;
    if (worker_id("decode_worker_id", id)) request_.hints.worker = id;
    if (worker_id("backend_instance_id", id)) request_.hints.worker = id;
    std::uint32_t rank = 0;
    if (fields_.integer("dp_rank", 0, kU32Most, rank)) request_.hints.worker_rank = rank;
    // Prefill has no workers of its own.
    if (worker_id("prefill_worker_id", id)) ignored("prefill_worker_id");
    if (fields_.integer("prefill_dp_rank", 0, kU32Most, rank)) ignored("prefill_dp_rank");
  }

  bool worker_id(std::string_view name, std::string& out) {
    const auto value = fields_.find(name);
    if (!value) return false;
    const bool is_number = value->is(json::Kind::kNumber);
    if (is_number && is_u64(value->raw())) {
      out = value->raw();
      return true;
    }
    if (is_number) {
      decoding_.fail(fields_.path(name), "must be an integer between 0 and 18446744073709551615");
    } else {
      decoding_.wrong_type(fields_.path(name), "an integer", value->kind());
    }
    return false;
  }

  /// What Dynamo took once and now refuses.
  void read_removed() {
    CacheMarks marks;
    if (const auto mark = marks.read(fields_)) mark_prompt(*mark);
    if (const auto object = fields_.object("session_control")) {
      const Path path = fields_.path("session_control");
      Asked asked;
      const Fields control(*object, path, decoding_, &asked);
      control.string("session_id", Limit::kIdBytes, request_.session.id);
      std::string action;
      if (control.string("action", action) && action == "close") request_.session.final = true;
      if (!action.empty() && action != "open" && action != "close" && action != "bind")
        decoding_.fail(control.path("action"), fmt::format("must be open, close or bind, not {}", shown(action)));
      double seconds = 0;
      control.number("timeout", 0, std::numeric_limits<double>::max(), seconds);
      asked.list_others(*object, "nvext.session_control.", left_out_);
    }
    read_agent_context();
  }

  void read_agent_context() {
    const auto object = fields_.object("agent_context");
    if (!object) return;
    const Path path = fields_.path("agent_context");
    Asked asked;
    const Fields context(*object, path, decoding_, &asked);
    ir::Session& session = request_.session;
    std::string kind;
    context.string("session_type_id", Limit::kIdBytes, kind);
    context.string("session_id", Limit::kIdBytes, session.id);
    context.string("trajectory_id", Limit::kIdBytes, session.agent);
    context.string("parent_trajectory_id", Limit::kIdBytes, session.parent);
    context.boolean("trajectory_final", session.final);
    asked.list_others(*object, "nvext.agent_context.", left_out_);
  }

  /// One time for the whole request: that of its last block, which has what is before it behind it.
  void mark_prompt(ir::CacheMark mark) {
    auto* const messages = std::get_if<std::vector<ir::Message>>(&request_.prompt);
    if (messages == nullptr || messages->empty() || messages->back().blocks.empty()) return;
    auto& last = messages->back().blocks.back().cache;
    if (!last) last = mark;
  }

  /// Taken for their type alone: kvern renders and tokenises every prompt itself, uploads nothing, and has no taints.
  void read_ignored() {
    bool flag = false;
    if (fields_.boolean("use_raw_prompt", flag)) ignored("use_raw_prompt");
    if (const auto tokens = fields_.array("token_data")) {
      Tokens unread;
      decode_token_ids(*tokens, Limit::kPromptTokens, fields_.path("token_data"), decoding_, unread);
      ignored("token_data");
    }
    if (const auto object = fields_.object("metadata_upload")) {
      const Path path = fields_.path("metadata_upload");
      std::string url;
      Fields(*object, path, decoding_).string("url", url);
      ignored("metadata_upload");
    }
    if (const auto object = fields_.object("routing_constraints")) read_taints(*object);
    if (const auto object = fields_.object("router")) {
      const Path path = fields_.path("router");
      const Fields router(*object, path, decoding_);
      for (const std::string_view name : {"ttft_target", "itl_target"}) {
        double milliseconds = 0;
        router.number(name, 0, std::numeric_limits<double>::max(), milliseconds);
      }
      ignored("router");
    }
  }

  void read_taints(json::Value object) {
    const Path path = fields_.path("routing_constraints");
    const Fields constraints(object, path, decoding_);
    std::vector<std::string> required;
    strings(constraints, "required_taints", required);
    if (const auto preferred = constraints.object("preferred_taints")) {
      const Path place = constraints.path("preferred_taints");
      if (!decoding_.within(Limit::kHintEntries, preferred->size(), place)) return;
      for (const auto& [key, value] : preferred->children()) {
        const std::string name = shown(key);
        if (!value.is(json::Kind::kNumber)) decoding_.wrong_type(member_of(place, name), "a number", value.kind());
      }
    }
    ignored("routing_constraints");
  }

  void strings(const Fields& fields, std::string_view name, std::vector<std::string>& out) {
    const auto list = fields.array(name);
    if (!list) return;
    const Path path = fields.path(name);
    if (!decoding_.within(Limit::kHintEntries, list->size(), path)) return;
    std::size_t index = 0;
    for (const auto& child : list->children()) {
      const Path place = element_of(path, index++);
      if (!child.value.is(json::Kind::kString)) return decoding_.wrong_type(place, "a string", child.value.kind());
      std::string text = child.value.string();
      if (!decoding_.within(Limit::kIdBytes, text.size(), place)) return;
      out.push_back(std::move(text));
    }
  }

  void ignored(std::string_view name) { left_out_.push_back(fmt::format("nvext.{}", name)); }

  const Fields& fields_;
  Decoding& decoding_;
  ir::Request& request_;
  std::vector<std::string>& left_out_;
};

}  // namespace

bool is_query_only(const ir::Hints& hints) noexcept {
  return std::ranges::any_of(hints.annotations,
                             [](std::string_view name) { return name.starts_with(kQueryAnnotation); });
}

std::optional<std::int32_t> decode_priority(const Fields& fields, std::string_view name) {
  const auto value = fields.find(name);
  if (!value) return std::nullopt;
  if (!value->is(json::Kind::kNumber)) {
    fields.decoding().wrong_type(fields.path(name), "a number", value->kind());
    return std::nullopt;
  }
  return static_cast<std::int32_t>(std::clamp(std::trunc(value->number()), -kPriorityMost, kPriorityMost));
}

void decode_extension(const Fields& body, ir::Request& request, std::vector<std::string>& left_out) {
  const auto object = body.object("nvext");
  if (!object) return;
  const Path path = body.path("nvext");
  Asked asked;
  const Fields fields(*object, path, body.decoding(), &asked);
  Extension(fields, request, left_out).read();
  asked.list_others(*object, "nvext.", left_out);
}

}  // namespace kvern::api

#include "api/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvern::api {
namespace {

constexpr std::uint64_t kMega = 1U << 20U;

// Defaults: what OpenAI documents where it does; otherwise well above what the measured harnesses send (24 tools of
// 64 kB, 40 messages) and well below what would hurt.
constexpr std::array kTable{
    LimitRow{Limit::kBodyBytes, "body_bytes", 32 * kMega, "bytes", ErrorCode::kTooLarge},
    LimitRow{Limit::kHeaderBytes, "header_bytes", 64U << 10U, "bytes", ErrorCode::kTooLarge},
    LimitRow{Limit::kHeaderFields, "header_fields", 256, "fields", ErrorCode::kTooLarge},
    LimitRow{Limit::kHeaderDeadlineMs, "header_deadline_ms", 10'000, "milliseconds", ErrorCode::kTimeout},
    LimitRow{Limit::kBodyDeadlineMs, "body_deadline_ms", 60'000, "milliseconds", ErrorCode::kTimeout},
    LimitRow{Limit::kIdleDeadlineMs, "idle_deadline_ms", 75'000, "milliseconds", ErrorCode::kTimeout},
    LimitRow{Limit::kWriteDeadlineMs, "write_deadline_ms", 30'000, "milliseconds", ErrorCode::kTimeout},
    LimitRow{Limit::kWriteBufferBytes, "write_buffer_bytes", kMega, "bytes", ErrorCode::kTimeout},
    LimitRow{Limit::kConnections, "connections", kMega, "connections", ErrorCode::kUnavailable},
    LimitRow{Limit::kJsonDepth, "json_depth", 128, "levels"},
    LimitRow{Limit::kJsonValues, "json_values", 2'000'000, "values"},
    LimitRow{Limit::kJsonMembers, "json_members", 10'000, "members"},
    LimitRow{Limit::kModelBytes, "model_bytes", 512, "bytes"},
    LimitRow{Limit::kMessages, "messages", 10'000, "messages"},
    LimitRow{Limit::kParts, "parts", 10'000, "content parts"},
    LimitRow{Limit::kNameBytes, "name_bytes", 256, "bytes"},
    LimitRow{Limit::kToolCalls, "tool_calls", 1'000, "tool calls"},
    LimitRow{Limit::kTools, "tools", 1'024, "tools"},
    LimitRow{Limit::kToolNameBytes, "tool_name_bytes", 256, "bytes"},
    LimitRow{Limit::kToolDescriptionBytes, "tool_description_bytes", 64U << 10U, "bytes"},
    LimitRow{Limit::kToolSchemaBytes, "tool_schema_bytes", 256U << 10U, "bytes"},
    LimitRow{Limit::kChoices, "choices", 128, "choices"},
    LimitRow{Limit::kStopStrings, "stop_strings", 4, "stop strings"},
    LimitRow{Limit::kStopBytes, "stop_bytes", 512, "bytes"},
    LimitRow{Limit::kStopTokenIds, "stop_token_ids", 256, "token ids"},
    LimitRow{Limit::kTopLogprobs, "top_logprobs", 20, "alternatives"},
    LimitRow{Limit::kLogitBias, "logit_bias", 1'024, "token ids"},
    LimitRow{Limit::kMaxTokens, "max_tokens", 16 * kMega, "tokens"},
    LimitRow{Limit::kMinTokens, "min_tokens", kMega, "tokens"},
    LimitRow{Limit::kPromptTokens, "prompt_tokens", kMega, "token ids"},
    LimitRow{Limit::kMetadataEntries, "metadata_entries", 16, "entries"},
    LimitRow{Limit::kMetadataKeyBytes, "metadata_key_bytes", 64, "bytes"},
    LimitRow{Limit::kMetadataValueBytes, "metadata_value_bytes", 512, "bytes"},
    LimitRow{Limit::kTemplateOptions, "template_options", 32, "options"},
    LimitRow{Limit::kTemplateOptionBytes, "template_option_bytes", 1'024, "bytes"},
    LimitRow{Limit::kIdBytes, "id_bytes", 512, "bytes"},
    LimitRow{Limit::kHintEntries, "hint_entries", 64, "entries"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].limit) != i) return false;
  }
  return kTable.size() == static_cast<std::size_t>(Limit::kCount);
}
static_assert(in_order());

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::span<const LimitRow> limit_table() noexcept { return kTable; }

Limits::Limits() {
  for (const LimitRow& row : kTable) values_[static_cast<std::size_t>(row.limit)] = row.initial;
}

Result<void> Limits::set(std::string_view key, std::uint64_t value) {
  if (value == 0) return invalid(std::string(key), fmt::format("limits.{} must be above 0", key));
  const auto row = std::find_if(kTable.begin(), kTable.end(), [&](const LimitRow& r) { return r.key == key; });
  if (row == kTable.end()) {
    const std::string_view bounded = key.substr(0, 64);
    const auto nearest = std::min_element(kTable.begin(), kTable.end(), [&](const LimitRow& a, const LimitRow& b) {
      return edit_distance(bounded, a.key) < edit_distance(bounded, b.key);
    });
    return invalid(std::string(key),
                   fmt::format("there is no limits.{}; did you mean limits.{}?", bounded, nearest->key));
  }
  values_[static_cast<std::size_t>(row->limit)] = value;
  return {};
}

std::optional<Error> Limits::check(Limit limit, std::uint64_t amount, std::string_view param) const {
  const std::uint64_t most = (*this)[limit];
  if (amount <= most) return std::nullopt;
  const LimitRow& row = kTable[static_cast<std::size_t>(limit)];
  return Error{
      row.code,
      fmt::format("{} is over its limit of {} {} (has {})", param.empty() ? "the body" : param, most, row.unit, amount),
      std::string(param),
      {},
      {}};
}

}  // namespace kvern::api

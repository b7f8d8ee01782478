// The one table of limits on what a client may send: for every dialect, for the HTTP server, and for --print-config.
// Each limit has a key under `limits:` in the config, a default, and the error that goes beyond it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvern::api {

enum class Limit : std::uint8_t {
  kBodyBytes,
  kHeaderBytes,
  kHeaderFields,
  kHeaderDeadlineMs,
  kBodyDeadlineMs,
  kIdleDeadlineMs,
  kWriteDeadlineMs,   // a reader that takes nothing for this long is cut off
  kWriteBufferBytes,  // and one that lets more than this wait
  kConnections,       // at most; fewer where the system allows fewer descriptors
  kJsonDepth,
  kJsonValues,
  kJsonMembers,
  kModelBytes,
  kMessages,
  kParts,
  kNameBytes,
  kToolCalls,
  kTools,
  kToolNameBytes,
  kToolDescriptionBytes,
  kToolSchemaBytes,
  kChoices,
  kStopStrings,
  kStopBytes,
  kStopTokenIds,
  kTopLogprobs,
  kLogitBias,
  kMaxTokens,
  kMinTokens,
  kPromptTokens,
  kMetadataEntries,
  kMetadataKeyBytes,
  kMetadataValueBytes,
  kTemplateOptions,
  kTemplateOptionBytes,
  kIdBytes,
  kHintEntries,
  kCount
};

struct LimitRow {
  Limit limit;
  std::string_view key;  // in the config, under `limits:`
  std::uint64_t initial;
  std::string_view unit;  // what is counted, as messages say it: "tools", "bytes"
  ErrorCode code = ErrorCode::kInvalidRequest;
};

/// Every limit, in the order of the enum.
std::span<const LimitRow> limit_table() noexcept;

/// The limits in force. A value: set while the config is read, then const and shared by all loops.
class Limits {
 public:
  Limits();
  std::uint64_t operator[](Limit limit) const noexcept { return values_[static_cast<std::size_t>(limit)]; }
  /// Sets a limit by its config key; 0 is not a limit. An unknown key is an error that suggests the nearest known one.
  Result<void> set(std::string_view key, std::uint64_t value);
  /// The one check: an Error naming `param` when `amount` is over the limit.
  std::optional<Error> check(Limit limit, std::uint64_t amount, std::string_view param) const;

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(Limit::kCount)> values_{};
};

}  // namespace kvern::api

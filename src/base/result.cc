#include "base/result.h"

namespace kvern {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidRequest: return "invalid_request";
    case ErrorCode::kContextLength: return "context_length";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kMethodNotAllowed: return "method_not_allowed";
    case ErrorCode::kTooLarge: return "too_large";
    case ErrorCode::kUnsupportedMedia: return "unsupported_media";
    case ErrorCode::kForbidden: return "forbidden";
    case ErrorCode::kMisdirected: return "misdirected";
    case ErrorCode::kUnauthorized: return "unauthorized";
    case ErrorCode::kUpgradeRefused: return "upgrade_refused";
    case ErrorCode::kOverloaded: return "overloaded";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kEngine: return "engine";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

bool retryable(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kOverloaded:
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
    case ErrorCode::kEngine: return true;
    default: return false;
  }
}

}  // namespace kvern

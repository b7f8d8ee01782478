// Result and Error: how expected failures travel inside kvern. Exceptions appear only at third-party edges and at
// start-up; everything else returns a Result. One function per dialect turns an Error into a status and a body.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace kvern {

/// What went wrong, as far as a caller acts on it. `retryable()` says whether the same request may succeed later or
/// elsewhere without a change.
enum class ErrorCode : std::uint8_t {
  kInvalidRequest,    // malformed or out of range; `param` names the field
  kContextLength,     // prompt plus answer exceed the model's context
  kNotFound,          // unknown model, path or object
  kMethodNotAllowed,  // path known, method not
  kTooLarge,          // a body or header over its limit
  kUnsupportedMedia,  // a body that is not JSON by content type
  kForbidden,         // Origin or key refused
  kMisdirected,       // Host header does not name this server
  kUnauthorized,      // no key, or a wrong one
  kOverloaded,        // a bounded queue is full
  kUnavailable,       // no worker can answer, or draining
  kTimeout,           // a deadline passed
  kCancelled,         // the caller is gone
  kEngine,            // the engine failed on this request
  kInternal,          // a bug, or a state that should not be
  kUpgradeRefused,    // another protocol was asked for (WebSocket)
};

/// Short stable name of a code, for logs and metrics ("invalid_request", "overloaded"...).
const char* to_string(ErrorCode code) noexcept;
bool retryable(ErrorCode code) noexcept;

/// An expected failure. `message` is fixed text of ours plus values the caller sent; never addresses, file paths of the
/// server or text of an upstream, since dialects show it to clients.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  /// Field of the request that is at fault, in the caller's spelling (`messages[2].content`), or empty.
  std::string param;
  /// A code string that a dialect shows instead of its default, or empty ("model_not_found").
  std::string detail;
  /// When a retry makes sense; dialects send it as Retry-After.
  std::optional<std::chrono::seconds> retry_after;

  bool operator==(const Error&) const = default;
};

inline Error invalid(std::string param, std::string message) {
  return Error{ErrorCode::kInvalidRequest, std::move(message), std::move(param), {}, {}};
}
inline Error fail(ErrorCode code, std::string message) { return Error{code, std::move(message), {}, {}, {}}; }

/// A value or an Error. Asking for the one that is not there is a bug and ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& value() & {
    KV_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    KV_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    KV_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & {
    KV_CHECK(!ok());
    return std::get<1>(state_);
  }
  const Error& error() const& {
    KV_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    KV_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Error& error() const& {
    KV_CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    KV_CHECK(!ok());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace kvern

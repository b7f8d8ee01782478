// A key or password that cannot be printed: no stream operator, no formatter, no implicit conversion. Logs, errors and
// --print-config get "[secret]" or nothing, because nothing else compiles.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace kvern {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  ~Secret() { wipe(); }
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  Secret(Secret&& other) noexcept : value_(std::move(other.value_)) { other.wipe(); }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      wipe();
      value_ = std::move(other.value_);
      other.wipe();
    }
    return *this;
  }

  /// The value, for the one place that must send or compare it.
  std::string_view reveal() const { return value_; }
  bool empty() const { return value_.empty(); }

  /// Takes the same time for every `other` of one length.
  bool equals(std::string_view other) const noexcept {
    unsigned difference = value_.size() == other.size() ? 0U : 1U;
    const std::size_t length = std::min(value_.size(), other.size());
    for (std::size_t i = 0; i < length; ++i) {
      difference |= static_cast<unsigned char>(value_[i]) ^ static_cast<unsigned char>(other[i]);
    }
    return difference == 0;
  }

 private:
  void wipe() noexcept {
    volatile char* bytes = value_.data();
    for (std::size_t i = 0; i < value_.size(); ++i) bytes[i] = 0;
    value_.clear();
  }
  std::string value_;
};

}  // namespace kvern

// A forward-only reader of one JSON text, for the few members of a worker's chunk that matter: no tree, no allocation,
// unknown members passed over. It is strict enough that garbage is noticed (structure, strings, literals, numbers by
// their characters), and its depth is bounded. A worker's answer is half trusted: every value read is checked again.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace kvern::engine {

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  /// Every reader returns false at a fault; the cursor is of no use then.
  /// Nothing but white space is left.
  bool done() {
    space();
    return at_ == end_;
  }
  bool take(char c) {
    space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  /// The next value is null, which is then taken.
  bool take_null() {
    space();
    return literal("null");
  }
  bool next_is(char c) {
    space();
    return at_ != end_ && *at_ == c;
  }

  /// The inside of a string as it stands, escapes and all.
  bool string(std::string_view& raw) {
    if (!take('"')) return false;
    const char* const begin = at_;
    for (; at_ != end_; ++at_) {
      const auto c = static_cast<unsigned char>(*at_);
      if (c == '"') {
        raw = {begin, static_cast<std::size_t>(at_ - begin)};
        ++at_;
        return true;
      }
      if (c < 0x20) return false;
      if (c == '\\' && ++at_ == end_) return false;
    }
    return false;
  }
  bool integer(std::int64_t& value) {
    space();
    const auto [next, fault] = std::from_chars(at_, end_, value);
    if (fault != std::errc{}) return false;
    at_ = next;
    return !is_number_part();
  }
  bool number(double& value) {
    space();
    if (at_ == end_ || (*at_ != '-' && !is_digit(*at_))) return false;  // from_chars knows inf and nan
    const auto [next, fault] = std::from_chars(at_, end_, value);
    if (fault != std::errc{}) return false;
    at_ = next;
    return !is_number_part();
  }

  /// `member(key)` takes the value and returns false at a fault.
  template <typename Member>
  bool object(Member member) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      std::string_view key;
      if (!string(key) || !take(':') || !member(key)) return false;
    } while (take(','));
    return take('}');
  }
  template <typename Element>
  bool array(Element element) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(']');
  }

  /// Passes over any value.
  bool skip() { return skip(kDepthMax); }
  /// Passes over an array of numbers without looking at them: megabytes a millisecond.
  bool skip_numbers() {
    if (!next_is('[')) return skip();
    const void* const close = std::memchr(at_, ']', static_cast<std::size_t>(end_ - at_));
    if (close == nullptr) return false;
    at_ = static_cast<const char*>(close) + 1;
    return true;
  }

 private:
  static constexpr int kDepthMax = 16;
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  bool skip(int depth) {
    space();
    if (at_ == end_ || depth == 0) return false;
    switch (*at_) {
      case '"': {
        std::string_view ignored;
        return string(ignored);
      }
      case '{': return object([&](std::string_view) { return skip(depth - 1); });
      case '[': return array([&] { return skip(depth - 1); });
      case 't': return literal("true");
      case 'f': return literal("false");
      case 'n': return literal("null");
      default: break;
    }
    const char* const begin = at_;
    while (is_number_part()) ++at_;
    return at_ != begin;
  }
  bool literal(std::string_view word) {
    if (static_cast<std::size_t>(end_ - at_) < word.size() || std::string_view(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool is_number_part() const {
    return at_ != end_ && (is_digit(*at_) || *at_ == '-' || *at_ == '+' || *at_ == '.' || *at_ == 'e' || *at_ == 'E');
  }
  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  const char* at_;
  const char* end_;
};

}  // namespace kvern::engine

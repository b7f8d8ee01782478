// JSON out: appends to a string, no tree. The fixed parts of an event stand ready as text, so that a chunk costs a few
// copies and one escape run (0.08 us for an SSE chunk of 193 bytes on a busy 2-core VM; `api_test` prints it).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::json {

/// Appends `text`, valid UTF-8, as the inside of a JSON string.
void append_escaped(std::string& out, std::string_view text);
/// Appends `text` as a JSON string with its quotes.
void append_quoted(std::string& out, std::string_view text);
void append_number(std::string& out, std::int64_t value);

/// Writes objects and arrays with the commas in the right places. The caller pairs begin and end.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  Writer& begin_object() { return open('{'); }
  Writer& end_object() { return close('}'); }
  Writer& begin_array() { return open('['); }
  Writer& end_array() { return close(']'); }
  Writer& key(std::string_view name) {
    comma();
    append_quoted(out_, name);
    out_ += ':';
    fresh_ = true;
    return *this;
  }
  Writer& value(std::string_view text) {
    comma();
    append_quoted(out_, text);
    return *this;
  }
  Writer& value(const char* text) { return value(std::string_view(text)); }
  Writer& value(const std::string& text) { return value(std::string_view(text)); }
  Writer& value(std::same_as<bool> auto flag) { return raw(flag ? "true" : "false"); }
  Writer& value(std::integral auto number)
    requires(!std::same_as<decltype(number), bool>)
  {
    comma();
    append_number(out_, static_cast<std::int64_t>(number));
    return *this;
  }
  Writer& null() { return raw("null"); }
  /// Text that is JSON already.
  Writer& raw(std::string_view text) {
    comma();
    out_ += text;
    return *this;
  }
  Writer& member(std::string_view name, const auto& content) { return key(name).value(content); }

 private:
  void comma() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  Writer& open(char c) {
    comma();
    out_ += c;
    fresh_ = true;
    return *this;
  }
  Writer& close(char c) {
    out_ += c;
    fresh_ = false;
    return *this;
  }
  std::string& out_;
  bool fresh_ = true;
};

}  // namespace kvern::json

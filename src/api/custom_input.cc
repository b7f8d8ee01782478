#include "api/custom_input.h"

namespace kvern::api {
namespace {

constexpr std::string_view kKey = "input\"";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void append_utf8(std::uint32_t code, std::string& out) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0U | (code >> 6U));
  } else if (code < 0x10000) {
    byte(0xE0U | (code >> 12U));
    byte(0x80U | ((code >> 6U) & 0x3FU));
  } else {
    byte(0xF0U | (code >> 18U));
    byte(0x80U | ((code >> 12U) & 0x3FU));
    byte(0x80U | ((code >> 6U) & 0x3FU));
  }
  byte(0x80U | (code & 0x3FU));
}

/// -1 where it is no hex digit.
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void CustomInput::add(std::string_view piece, std::string& out) {
  for (const char c : piece) step(c, out);
}

void CustomInput::finish(std::string& out) {
  lone_surrogate(out);
  if (state_ == State::kText || state_ == State::kEscape || state_ == State::kUnicode) return;
  // A call without arguments has no input.
  if (held_ != "{}") out += held_;
  held_.clear();
}

void CustomInput::step(char c, std::string& out) {
  switch (state_) {
    case State::kDone: return;
    case State::kPlain: out += c; return;
    case State::kText:
      if (c == '\\') {
        state_ = State::kEscape;
        return;
      }
      lone_surrogate(out);
      if (c == '"') {
        state_ = State::kDone;
      } else {
        out += c;
      }
      return;
    case State::kEscape: return escaped(c, out);
    case State::kUnicode: return unicode(c, out);
    default: break;
  }
  // Before the text: {, "input", :, "; or the quote of a bare string.
  held_ += c;
  if (state_ == State::kInKey) {
    if (c != kKey[key_at_]) return give_up(out);
    if (++key_at_ == kKey.size()) state_ = State::kColon;
    return;
  }
  if (is_space(c)) return;
  if ((state_ == State::kStart || state_ == State::kValue) && c == '"') {
    held_.clear();
    state_ = State::kText;
  } else if (state_ == State::kStart && c == '{') {
    state_ = State::kKey;
  } else if (state_ == State::kKey && c == '"') {
    state_ = State::kInKey;
  } else if (state_ == State::kColon && c == ':') {
    state_ = State::kValue;
  } else if (held_ != "{}") {
    give_up(out);
  }
}

void CustomInput::escaped(char c, std::string& out) {
  if (c == 'u') {
    state_ = State::kUnicode;
    unit_ = 0;
    digits_ = 0;
    return;
  }
  lone_surrogate(out);
  state_ = State::kText;
  switch (c) {
    case 'n': out += '\n'; return;
    case 't': out += '\t'; return;
    case 'r': out += '\r'; return;
    case 'b': out += '\b'; return;
    case 'f': out += '\f'; return;
    case '"':
    case '\\':
    case '/': out += c; return;
    default: break;
  }
  // Models forget to escape backslashes; the text is then what they meant.
  out += '\\';
  out += c;
}

void CustomInput::unicode(char c, std::string& out) {
  const int digit = hex_value(c);
  if (digit < 0) {  // no escape after all
    state_ = State::kText;
    lone_surrogate(out);
    out += kReplacement;
    return step(c, out);
  }
  unit_ = unit_ * 16 + static_cast<std::uint32_t>(digit);
  if (++digits_ < 4) return;
  state_ = State::kText;
  const bool is_low = unit_ >= 0xDC00 && unit_ <= 0xDFFF;
  if (high_ != 0 && is_low) {
    append_utf8(0x10000 + ((high_ - 0xD800) << 10U) + (unit_ - 0xDC00), out);
    high_ = 0;
    return;
  }
  lone_surrogate(out);
  if (unit_ >= 0xD800 && unit_ <= 0xDBFF) {
    high_ = unit_;
  } else if (is_low) {
    out += kReplacement;
  } else {
    append_utf8(unit_, out);
  }
}

void CustomInput::lone_surrogate(std::string& out) {
  if (high_ != 0) out += kReplacement;
  high_ = 0;
}

void CustomInput::give_up(std::string& out) {
  out += held_;
  held_.clear();
  state_ = State::kPlain;
}

}  // namespace kvern::api

#include "parser/json_string.h"

namespace kvern::parser {
namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::uint32_t code, std::string& out) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0U | (code >> 6U));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0U | (code >> 12U));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | (code >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

void JsonString::drop_half(std::string& out) {
  if (high_ != 0) append_utf8(0xFFFD, out);
  high_ = 0;
}

void JsonString::unit(std::string& out) {
  state_ = State::kPlain;
  if (unit_ >= 0xDC00 && unit_ < 0xE000 && high_ != 0) {
    append_utf8(0x10000U + ((high_ - 0xD800U) << 10U) + (unit_ - 0xDC00U), out);
    high_ = 0;
    return;
  }
  drop_half(out);
  if (unit_ >= 0xD800 && unit_ < 0xDC00) {
    high_ = unit_;
  } else {
    append_utf8(unit_ >= 0xDC00 && unit_ < 0xE000 ? 0xFFFDU : unit_, out);
  }
}

bool JsonString::step(char c, std::string& out) {
  switch (state_) {
    case State::kPlain:
      if (c == '\\') {
        state_ = State::kEscape;
        return false;
      }
      drop_half(out);
      if (c == '"') return true;
      out += c;
      return false;
    case State::kEscape:
      if (c == 'u') {
        state_ = State::kHex;
        digits_ = 0;
        unit_ = 0;
        return false;
      }
      state_ = State::kPlain;
      drop_half(out);
      switch (c) {
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        default: out += c;
      }
      return false;
    case State::kHex:
      if (const int digit = hex_digit(c); digit >= 0) {
        unit_ = static_cast<std::uint16_t>(unit_ * 16 + digit);
        if (++digits_ == 4) unit(out);
        return false;
      }
      // A broken escape: its place is marked and the byte is read as usual.
      state_ = State::kPlain;
      drop_half(out);
      append_utf8(0xFFFD, out);
      return step(c, out);
  }
  return false;
}

}  // namespace kvern::parser

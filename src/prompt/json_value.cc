#include "prompt/json_value.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

namespace kvern::prompt {
namespace {

constexpr int kDepthMax = 128;

jinja::value input_string(std::string text) {
  auto value = jinja::mk_val<jinja::value_string>(text);
  value->mark_input();
  return value;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0U | (code >> 6U));
    out += static_cast<char>(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0U | (code >> 12U));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (code & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | (code >> 18U));
    out += static_cast<char>(0x80U | ((code >> 12U) & 0x3FU));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

/// Recursive descent; null means "not JSON" and ends everything.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<jinja::value> document() {
    jinja::value value = read(0);
    space();
    if (value == nullptr || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  jinja::value read(int depth) {
    if (depth > kDepthMax) return nullptr;
    space();
    if (at_ >= text_.size()) return nullptr;
    switch (text_[at_]) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': {
        std::optional<std::string> text = string();
        return text ? input_string(std::move(*text)) : nullptr;
      }
      case 't': return word("true") ? jinja::mk_val<jinja::value_bool>(true) : nullptr;
      case 'f': return word("false") ? jinja::mk_val<jinja::value_bool>(false) : nullptr;
      case 'n': return word("null") ? jinja::value(jinja::mk_val<jinja::value_none>()) : nullptr;
      default: return number();
    }
  }

  jinja::value object(int depth) {
    ++at_;
    auto object = jinja::mk_val<jinja::value_object>();
    if (take('}')) return object;
    do {
      space();
      if (at_ >= text_.size() || text_[at_] != '"') return nullptr;
      std::optional<std::string> key = string();
      if (!key || !take(':')) return nullptr;
      jinja::value value = read(depth + 1);
      if (value == nullptr) return nullptr;
      object->insert(input_string(std::move(*key)), value);
    } while (take(','));
    return take('}') ? jinja::value(object) : nullptr;
  }

  jinja::value array(int depth) {
    ++at_;
    auto array = jinja::mk_val<jinja::value_array>();
    if (take(']')) return array;
    do {
      jinja::value value = read(depth + 1);
      if (value == nullptr) return nullptr;
      array->push_back(std::move(value));
    } while (take(','));
    return take(']') ? jinja::value(array) : nullptr;
  }

  std::optional<std::uint32_t> hex4() {
    if (text_.size() - at_ < 4) return std::nullopt;
    std::uint32_t code = 0;
    const char* from = text_.data() + at_;
    if (std::from_chars(from, from + 4, code, 16).ptr != from + 4) return std::nullopt;
    at_ += 4;
    return code;
  }

  std::optional<std::string> string() {
    ++at_;
    std::string out;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size() || !escape(out)) return std::nullopt;
    }
    return std::nullopt;
  }

  bool escape(std::string& out) {
    switch (text_[at_++]) {
      case '"': out += '"'; return true;
      case '\\': out += '\\'; return true;
      case '/': out += '/'; return true;
      case 'b': out += '\b'; return true;
      case 'f': out += '\f'; return true;
      case 'n': out += '\n'; return true;
      case 'r': out += '\r'; return true;
      case 't': out += '\t'; return true;
      case 'u': break;
      default: return false;
    }
    std::optional<std::uint32_t> code = hex4();
    if (!code) return false;
    if (*code >= 0xD800 && *code < 0xDC00 && word("\\u")) {
      const std::optional<std::uint32_t> low = hex4();
      if (!low) return false;
      const bool pair = *low >= 0xDC00 && *low < 0xE000;
      code = pair ? 0x10000 + ((*code - 0xD800) << 10U) + (*low - 0xDC00) : 0xFFFD;
    } else if (*code >= 0xD800 && *code < 0xE000) {
      code = 0xFFFD;  // half of a pair stands for nothing
    }
    append_utf8(out, *code);
    return true;
  }

  bool digits() {
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > start;
  }

  jinja::value number() {
    const std::size_t start = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    const std::size_t first = at_;
    if (!digits() || (text_[first] == '0' && at_ - first > 1)) return nullptr;
    bool whole = true;
    if (at_ < text_.size() && text_[at_] == '.') {
      whole = false;
      ++at_;
      if (!digits()) return nullptr;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      whole = false;
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (!digits()) return nullptr;
    }
    const char* from = text_.data() + start;
    const char* to = text_.data() + at_;
    std::int64_t integer = 0;
    if (whole && std::from_chars(from, to, integer).ec == std::errc{}) {
      return jinja::mk_val<jinja::value_int>(integer);
    }
    double real = 0;
    if (std::from_chars(from, to, real).ec != std::errc{}) return nullptr;
    return jinja::mk_val<jinja::value_float>(real);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<jinja::value> json_value(std::string_view json) { return Reader(json).document(); }

}  // namespace kvern::prompt

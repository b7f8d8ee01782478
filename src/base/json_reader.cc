#include "base/json_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/check.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvern::json {
namespace {

/// Length of the valid UTF-8 at the start of `text`. Slow; only for the place of a fault.
std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (at + length > text.size() || !simdjson::validate_utf8(text.data() + at, length)) return at;
    at += length;
  }
  return at;
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

int hex_digit(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The code unit of four hex digits that the parser has seen to be there.
std::uint32_t code_unit(std::string_view text, std::size_t at) noexcept {
  std::uint32_t unit = 0;
  for (std::size_t i = 0; i < 4; ++i) unit = unit * 16 + static_cast<std::uint32_t>(hex_digit(text[at + i]));
  return unit;
}

void append_utf8(std::uint32_t code, std::string& out) {
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

/// Text between the quotes of a valid JSON string, unescaped. Half surrogates come from clients that cut a string in
/// the middle of an emoji; refusing them would end a session over one character.
std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  std::size_t at = 0;
  while (at < raw.size()) {
    const std::size_t slash = std::min(raw.find('\\', at), raw.size());
    out.append(raw, at, slash - at);
    if (slash == raw.size()) break;
    at = slash + 2;
    switch (raw[slash + 1]) {
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'u': {
        std::uint32_t code = code_unit(raw, at);
        at += 4;
        if (code >= 0xD800 && code < 0xE000) {
          std::uint32_t low = 0;
          if (code < 0xDC00 && raw.compare(at, 2, "\\u") == 0) low = code_unit(raw, at + 2);
          if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
            at += 6;
          } else {
            code = 0xFFFD;
          }
        }
        append_utf8(code, out);
        break;
      }
      default: out += raw[slash + 1];  // quote, slash, backslash
    }
  }
  return out;
}

/// First place from `at` that is a quote, a backslash or a control character, or the end.
std::size_t find_special(std::string_view text, std::size_t at) noexcept {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i slash = _mm_set1_epi8('\\');
  const __m128i highest_control = _mm_set1_epi8(0x1F);
  for (; at + 16 <= text.size(); at += 16) {
    __m128i bytes;
    std::memcpy(&bytes, text.data() + at, 16);
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, highest_control), bytes);
    const __m128i special =
        _mm_or_si128(control, _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(special));
    if (mask != 0) return at + static_cast<std::size_t>(std::countr_zero(mask));
  }
#endif
  while (at < text.size() && text[at] != '"' && text[at] != '\\' && static_cast<unsigned char>(text[at]) >= 0x20) ++at;
  return at;
}

}  // namespace

/// One run over the text with its own stack, so that no nesting can exhaust ours.
class Parser {
 public:
  Parser(std::string_view text, const ReadLimits& limits, Document& out) : text_(text), limits_(limits), out_(out) {}

  std::optional<Error> run() {
    while (expecting_ || !open_.empty()) {
      if (!(expecting_ ? value() : after_value())) return fault_;
    }
    skip_space();
    if (at_ != text_.size()) fail("more text after the end of the value");
    return fault_;
  }

 private:
  struct Open {
    std::uint32_t node;
    std::uint32_t members;
  };

  bool fail(std::string_view what) { return fail_at(at_, what); }
  bool fail_at(std::size_t at, std::string_view what) {
    fault_ = invalid("", fmt::format("the body is not valid JSON at {}: {}", position(text_, at), what));
    return false;
  }
  bool done() const noexcept { return at_ >= text_.size(); }
  void skip_space() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  bool add(Kind kind) {
    if (out_.nodes_.size() >= limits_.values) {
      fault_ = invalid("", fmt::format("the body holds more than {} JSON values", limits_.values));
      return false;
    }
    const auto at = static_cast<std::uint32_t>(at_);
    out_.nodes_.push_back({at, at, static_cast<std::uint32_t>(out_.nodes_.size() + 1), kind, false});
    return true;
  }

  /// One value; of a container only its opening and, in an object, the first key.
  bool value() {
    expecting_ = false;
    skip_space();
    if (done()) return fail(text_.empty() ? "the body is empty" : "it ends where a value should stand");
    switch (text_[at_]) {
      case '{': return open(Kind::kObject, '}');
      case '[': return open(Kind::kArray, ']');
      case '"': return add(Kind::kString) && string();
      case 't': return literal(Kind::kBool, "true");
      case 'f': return literal(Kind::kBool, "false");
      case 'n': return literal(Kind::kNull, "null");
      default: return number();
    }
  }

  bool open(Kind kind, char closing) {
    if (open_.size() >= limits_.depth) {
      fault_ = invalid(
          "", fmt::format("the body is nested deeper than {} levels at {}", limits_.depth, position(text_, at_)));
      return false;
    }
    open_.push_back({static_cast<std::uint32_t>(out_.nodes_.size()), 0});
    if (!add(kind)) return false;
    ++at_;
    skip_space();
    if (!done() && text_[at_] == closing) return close();
    expecting_ = true;
    return kind == Kind::kArray || key();
  }

  bool key() {
    skip_space();
    if (done() || text_[at_] != '"') return fail("a member's name in double quotes should stand here");
    if (++open_.back().members > limits_.members) {
      fault_ = invalid("", fmt::format("the body holds an object of more than {} members at {}", limits_.members,
                                       position(text_, at_)));
      return false;
    }
    if (!add(Kind::kString) || !string()) return false;
    auto& node = out_.nodes_.back();
    if (node.escaped) {
      out_.keys_.push_back(unescape(text_.substr(node.begin + 1, node.end - node.begin - 2)));
      node.begin = static_cast<std::uint32_t>(out_.keys_.size() - 1);
    }
    skip_space();
    if (done() || text_[at_] != ':') return fail("a colon should stand here");
    ++at_;
    return true;
  }

  bool after_value() {
    const bool object = out_.nodes_[open_.back().node].kind == Kind::kObject;
    skip_space();
    if (done()) return fail(object ? "it ends inside an object" : "it ends inside an array");
    if (text_[at_] == ',') {
      ++at_;
      expecting_ = true;
      return !object || key();
    }
    if (text_[at_] == (object ? '}' : ']')) return close();
    return fail(object ? "a comma or } should stand here" : "a comma or ] should stand here");
  }

  bool close() {
    ++at_;
    auto& node = out_.nodes_[open_.back().node];
    node.end = static_cast<std::uint32_t>(at_);
    node.next = static_cast<std::uint32_t>(out_.nodes_.size());
    const bool unique = node.kind == Kind::kArray || keys_are_unique(open_.back().node);
    open_.pop_back();
    return unique;
  }

  bool keys_are_unique(std::uint32_t object) {
    names_.clear();
    const std::uint32_t end = out_.nodes_[object].next;
    for (std::uint32_t node = object + 1; node < end; node = out_.nodes_[node + 1].next)
      names_.push_back(out_.key(node));
    if (names_.size() <= 12) {
      for (std::size_t i = 1; i < names_.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (names_[i] == names_[j]) return twice(names_[i]);
        }
      }
      return true;
    }
    std::sort(names_.begin(), names_.end());
    const auto pair = std::adjacent_find(names_.begin(), names_.end());
    return pair == names_.end() || twice(*pair);
  }
  bool twice(std::string_view name) {
    const std::string shown(name.substr(0, valid_prefix(name.substr(0, 64))));
    fault_ =
        invalid(shown, fmt::format("`{}` stands twice in the object that ends at {}", shown, position(text_, at_ - 1)));
    return false;
  }

  bool literal(Kind kind, std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return fail("a value should stand here");
    if (!add(kind)) return false;
    at_ += word.size();
    out_.nodes_.back().end = static_cast<std::uint32_t>(at_);
    return true;
  }

  bool number() {
    std::size_t at = at_;
    const auto digits = [&] {
      const std::size_t first = at;
      while (at < text_.size() && is_digit(text_[at])) ++at;
      return at > first;
    };
    const std::size_t start = at_;
    if (at < text_.size() && text_[at] == '-') ++at;
    if (at >= text_.size() || !is_digit(text_[at])) return fail("a value should stand here");
    if (text_[at] == '0') {
      ++at;
      if (at < text_.size() && is_digit(text_[at])) return fail_at(at, "a number does not begin with 0");
    } else {
      digits();
    }
    if (at < text_.size() && text_[at] == '.') {
      ++at;
      if (!digits()) return fail_at(at, "a digit should stand here");
    }
    if (at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
      ++at;
      if (at < text_.size() && (text_[at] == '+' || text_[at] == '-')) ++at;
      if (!digits()) return fail_at(at, "a digit should stand here");
    }
    at_ = start;
    if (!add(Kind::kNumber)) return false;
    at_ = at;
    out_.nodes_.back().end = static_cast<std::uint32_t>(at_);
    return true;
  }

  /// From the opening quote to behind the closing one, of the node added last.
  bool string() {
    const std::size_t start = at_++;
    for (;;) {
      at_ = find_special(text_, at_);
      if (done()) return fail_at(start, "the string that begins here does not end");
      const char c = text_[at_];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) return fail("a control character must be escaped in a string");
      out_.nodes_.back().escaped = true;
      if (!escape()) return false;
    }
    ++at_;
    out_.nodes_.back().end = static_cast<std::uint32_t>(at_);
    return true;
  }

  bool escape() {
    constexpr std::string_view kPlain = "\"\\/bfnrt";
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == 'u') {
      for (std::size_t i = 2; i < 6; ++i) {
        if (at_ + i >= text_.size() || hex_digit(text_[at_ + i]) < 0) return fail("\\u needs four hex digits");
      }
      at_ += 6;
      return true;
    }
    if (c == '\0' || kPlain.find(c) == std::string_view::npos) return fail("no such escape");
    at_ += 2;
    return true;
  }

  std::string_view text_;
  ReadLimits limits_;
  Document& out_;
  std::size_t at_ = 0;
  bool expecting_ = true;  // a value comes next, not a comma or an end
  std::vector<Open> open_;
  std::vector<std::string_view> names_;
  std::optional<Error> fault_;
};

const char* described(Kind kind) noexcept {
  switch (kind) {
    case Kind::kNull: return "null";
    case Kind::kBool: return "a boolean";
    case Kind::kNumber: return "a number";
    case Kind::kString: return "a string";
    case Kind::kArray: return "an array";
    case Kind::kObject: return "an object";
  }
  return "a value";
}

void mend_half_surrogates(std::string& text) {
  const auto has = [&](const char* escape) { return memmem(text.data(), text.size(), escape, 3) != nullptr; };
  if (!has("\\ud") && !has("\\uD")) return;
  // The code unit that is escaped at a place, or 0.
  const auto unit_at = [&](std::size_t at) -> std::uint32_t {
    if (text.size() - at < 6 || text[at] != '\\' || text[at + 1] != 'u') return 0;
    for (std::size_t i = 2; i < 6; ++i) {
      if (hex_digit(text[at + i]) < 0) return 0;
    }
    return code_unit(text, at + 2);
  };
  for (std::size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at)) {
    const std::uint32_t unit = unit_at(at);
    if (unit < 0xD800 || unit > 0xDFFF) {
      at += 2;
      continue;
    }
    const std::uint32_t next = unit < 0xDC00 && at + 6 <= text.size() ? unit_at(at + 6) : 0;
    if (next >= 0xDC00 && next <= 0xDFFF) {
      at += 12;
      continue;
    }
    text.replace(at, 6, "\\ufffd");
    at += 6;
  }
}

std::string position(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::string_view last = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto column =
      std::count_if(last.begin(), last.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  return fmt::format("line {}, column {}", line, column + 1);
}

Result<std::unique_ptr<const Document>> Document::parse(std::string_view text, const ReadLimits& limits) {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorCode::kTooLarge, "the body is too large");
  if (!simdjson::validate_utf8(text.data(), text.size()))
    return invalid("", fmt::format("the body is not valid UTF-8 at {}", position(text, valid_prefix(text))));
  auto document = std::unique_ptr<Document>(new Document);
  document->text_ = text;
  if (auto fault = Parser(text, limits, *document).run()) return *std::move(fault);
  return std::unique_ptr<const Document>(std::move(document));
}

std::string_view Document::key(std::uint32_t node) const noexcept {
  const Node& key = nodes_[node];
  return key.escaped ? std::string_view(keys_[key.begin]) : text_.substr(key.begin + 1, key.end - key.begin - 2);
}

Kind Value::kind() const noexcept { return document_->nodes_[node_].kind; }

std::string_view Value::raw() const noexcept {
  const auto& node = document_->nodes_[node_];
  return document_->text_.substr(node.begin, node.end - node.begin);
}

bool Value::boolean() const noexcept {
  KV_CHECK(is(Kind::kBool));
  return raw() == "true";
}

std::string Value::string() const {
  KV_CHECK(is(Kind::kString));
  const std::string_view text = raw();
  const std::string_view inside = text.substr(1, text.size() - 2);
  return document_->nodes_[node_].escaped ? unescape(inside) : std::string(inside);
}

double Value::number() const {
  KV_CHECK(is(Kind::kNumber));
  const std::string_view text = raw();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

std::optional<std::int64_t> Value::integer() const {
  KV_CHECK(is(Kind::kNumber));
  const std::string_view text = raw();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Value> Value::find(std::string_view key) const {
  for (const auto& [name, value] : children()) {
    if (name == key) return value;
  }
  return std::nullopt;
}

Value::Range Value::children() const noexcept {
  KV_CHECK(is(Kind::kArray) || is(Kind::kObject));
  const bool keyed = is(Kind::kObject);
  return {{document_, node_ + 1, keyed}, {document_, document_->nodes_[node_].next, keyed}};
}

std::uint32_t Value::size() const noexcept {
  std::uint32_t count = 0;
  const Range range = children();
  for (auto it = range.begin(); it != range.end(); ++it) ++count;
  return count;
}

Value::Child Value::Iterator::operator*() const {
  if (keyed_) return {document_->key(node_), Value(document_, node_ + 1)};
  return {{}, Value(document_, node_)};
}

Value::Iterator& Value::Iterator::operator++() {
  node_ = document_->nodes_[keyed_ ? node_ + 1 : node_].next;
  return *this;
}

}  // namespace kvern::json

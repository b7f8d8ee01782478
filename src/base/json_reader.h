// Strict JSON in: one pass over a body gives a compact tree of spans into it. What it promises to the decoders:
//   - the whole text is RFC 8259 and valid UTF-8, also in fields nobody reads; a fault names its line and column;
//   - depth, number of values and of members of an object are bounded as it is built, and nothing recurses;
//   - no object holds a key twice, so no two readers can disagree about a value;
//   - strings come out as valid UTF-8: NUL is kept, a surrogate without its other half becomes U+FFFD;
//   - `raw()` is the exact text of a value, so schemas and numbers pass through as they were written.
// A tree costs 16 bytes a value on top of the text, which it borrows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvern::json {

enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
/// "a string", "an object"...: for messages.
const char* described(Kind kind) noexcept;

struct ReadLimits {
  std::uint32_t depth = 128;
  std::uint32_t values = 2'000'000;
  std::uint32_t members = 10'000;  // of one object: readers look members up one after the other
};

class Document;

/// A value of a Document, which outlives it. Cheap to copy.
class Value {
 public:
  Kind kind() const noexcept;
  bool is(Kind kind) const noexcept { return this->kind() == kind; }
  /// The exact text.
  std::string_view raw() const noexcept;

  /// Each asks for a value of its kind.
  bool boolean() const noexcept;
  std::string string() const;
  /// Infinite where the literal is beyond a double.
  double number() const;
  /// A literal without fraction or exponent that fits; nullopt otherwise.
  std::optional<std::int64_t> integer() const;

  /// Members of an object by name, in constant space and linear time; nullopt where there is none.
  std::optional<Value> find(std::string_view key) const;

  /// Children in order: elements, or values of members with `key` (stable as long as the Document).
  struct Child;
  class Iterator;
  struct Range;
  Range children() const noexcept;
  std::uint32_t size() const noexcept;

 private:
  friend class Document;
  friend class Iterator;
  Value(const Document* document, std::uint32_t node) : document_(document), node_(node) {}
  const Document* document_;
  std::uint32_t node_;
};

struct Value::Child {
  std::string_view key;  // empty in arrays
  Value value;
};

class Value::Iterator {
 public:
  Child operator*() const;
  Iterator& operator++();
  bool operator!=(const Iterator& other) const noexcept { return node_ != other.node_; }

 private:
  friend class Value;
  Iterator(const Document* document, std::uint32_t node, bool keyed)
      : document_(document), node_(node), keyed_(keyed) {}
  const Document* document_;
  std::uint32_t node_;
  bool keyed_;
};

struct Value::Range {
  Iterator first;
  Iterator last;
  Iterator begin() const { return first; }
  Iterator end() const { return last; }
};

/// Immutable once parsed; does not move while Values point into it.
class Document {
 public:
  /// `text` outlives the document and is shorter than 4 GiB.
  static Result<std::unique_ptr<const Document>> parse(std::string_view text, const ReadLimits& limits);
  Value root() const noexcept { return {this, 0}; }

 private:
  friend class Value;
  friend class Value::Iterator;
  friend class Parser;
  /// In order of the text, a member as its key and then its value. `next` is the node behind the whole subtree.
  struct Node {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t next = 0;
    Kind kind = Kind::kNull;
    bool escaped = false;  // strings: has a backslash; keys then stand unescaped in keys_, `begin` being the place
  };
  std::string_view key(std::uint32_t node) const noexcept;

  std::string_view text_;
  std::vector<Node> nodes_;
  std::vector<std::string> keys_;
};

/// Makes U+FFFD of each escape of half a surrogate pair, in place and in the same six bytes: then `raw()` too is text
/// that every reader takes. Such halves come from clients that cut a string inside an emoji. Other text stays as it is,
/// valid or not. O(text), almost nothing where there is none.
void mend_half_surrogates(std::string& text);

/// "line L, column C" of a byte, both from 1; columns count characters.
std::string position(std::string_view text, std::size_t at);

}  // namespace kvern::json

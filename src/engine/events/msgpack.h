// MessagePack, as much of it as KV events need (github.com/msgpack/msgpack, spec.md). The reader walks over borrowed
// bytes: texts and bytes are views into them, nothing is copied or allocated, a claimed length is checked against what
// is there, and skipping needs no stack. The writer picks the shortest form, as msgspec does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::engine::events::msgpack {

enum class Type : std::uint8_t { kNil, kBool, kInteger, kFloat, kText, kBytes, kArray, kMap, kExtension, kNone };

/// An integer of either sign: `bits` is its 64-bit two's complement.
struct Integer {
  std::uint64_t bits = 0;
  bool negative = false;
};

/// One pass over a buffer. A read that does not fit what comes next returns false and moves nothing; the caller decides
/// what that means. After a false for truncated input, later reads are false too.
class Reader {
 public:
  /// `bytes` is borrowed as long as the reader and the views it gave out are used.
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  /// The type of the next value; kNone at the end and for the one byte the format never uses.
  Type peek() const;
  std::size_t offset() const { return at_; }
  std::size_t remaining() const { return bytes_.size() - at_; }
  std::string_view since(std::size_t offset) const { return bytes_.substr(offset, at_ - offset); }

  bool nil();  // true when there was one
  bool integer(Integer& value);
  bool number(double& value);  // a float of either size, or an integer
  bool text(std::string_view& value);
  bool bytes(std::string_view& value);
  /// The elements (of a map: twice `size`, key before value) follow. True only if that many could be there.
  bool array(std::uint32_t& size);
  bool map(std::uint32_t& size);
  /// Passes over one value with all that is in it.
  bool skip();

 private:
  struct Head {
    Type type = Type::kNone;
    std::size_t head_bytes = 0;  // of tag and length
    std::size_t body_bytes = 0;  // of what is no value of its own
    std::uint64_t values = 0;    // that follow as elements
  };
  bool head(Head& found) const;
  std::uint64_t big_endian(std::size_t from, std::size_t count) const;
  bool span(Type type, std::string_view& value);
  bool collection(Type type, std::uint64_t values_each, std::uint32_t& size);

  const std::string_view bytes_;
  std::size_t at_ = 0;
};

void write_nil(std::string& out);
void write_unsigned(std::string& out, std::uint64_t value);
void write_signed(std::string& out, std::int64_t value);
void write_double(std::string& out, double value);
void write_text(std::string& out, std::string_view value);
void write_bytes(std::string& out, std::string_view value);
void write_array(std::string& out, std::size_t size);
void write_map(std::string& out, std::size_t size);

}  // namespace kvern::engine::events::msgpack

#include "engine/events/msgpack.h"

#include <bit>
#include <limits>

namespace kvern::engine::events::msgpack {
namespace {

constexpr std::uint8_t kNil = 0xc0;
constexpr std::uint8_t kFalse = 0xc2;
constexpr std::uint8_t kTrue = 0xc3;
constexpr std::uint8_t kBin8 = 0xc4;
constexpr std::uint8_t kExt8 = 0xc7;
constexpr std::uint8_t kFloat32 = 0xca;
constexpr std::uint8_t kFloat64 = 0xcb;
constexpr std::uint8_t kUint8 = 0xcc;
constexpr std::uint8_t kInt8 = 0xd0;
constexpr std::uint8_t kFixExt1 = 0xd4;
constexpr std::uint8_t kStr8 = 0xd9;
constexpr std::uint8_t kArray16 = 0xdc;
constexpr std::uint8_t kMap16 = 0xde;
constexpr std::uint8_t kNegativeFixint = 0xe0;

void put(std::string& out, std::uint8_t tag) { out.push_back(static_cast<char>(tag)); }

void put(std::string& out, std::uint8_t tag, std::uint64_t value, unsigned bytes) {
  put(out, tag);
  for (unsigned i = bytes; i > 0; --i) put(out, static_cast<std::uint8_t>(value >> (8 * (i - 1))));
}

}  // namespace

// --- Reading ------------------------------------------------------------------------------------------------------

std::uint64_t Reader::big_endian(std::size_t from, std::size_t count) const {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8U | static_cast<std::uint8_t>(bytes_[from + i]);
  return value;
}

bool Reader::head(Head& found) const {
  if (at_ >= bytes_.size()) return false;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  const auto fixed = [&found](Type type, std::size_t body) { found = Head{type, 1, body, 0}; };
  // Forms whose tag is followed by a length of `width` bytes.
  std::size_t width = 0;
  Type type = Type::kNone;
  std::size_t extra = 0;
  if (tag < 0x80 || tag >= kNegativeFixint) {
    fixed(Type::kInteger, 0);
  } else if (tag < 0x90) {
    found = Head{Type::kMap, 1, 0, std::uint64_t{2} * (tag & 0x0fU)};
  } else if (tag < 0xa0) {
    found = Head{Type::kArray, 1, 0, tag & 0x0fU};
  } else if (tag < kNil) {
    fixed(Type::kText, tag & 0x1fU);
  } else if (tag == kNil) {
    fixed(Type::kNil, 0);
  } else if (tag < kFalse) {
    return false;  // 0xc1 is never used
  } else if (tag <= kTrue) {
    fixed(Type::kBool, 0);
  } else if (tag < kExt8) {
    type = Type::kBytes;
    width = std::size_t{1} << (tag - kBin8);
  } else if (tag < kFloat32) {
    type = Type::kExtension;
    width = std::size_t{1} << (tag - kExt8);
    extra = 1;
  } else if (tag <= kFloat64) {
    fixed(Type::kFloat, tag == kFloat32 ? 4 : 8);
  } else if (tag < kFixExt1) {
    fixed(Type::kInteger, std::size_t{1} << ((tag - kUint8) & 3U));
  } else if (tag < kStr8) {
    fixed(Type::kExtension, 1 + (std::size_t{1} << (tag - kFixExt1)));
  } else if (tag < kArray16) {
    type = Type::kText;
    width = std::size_t{1} << (tag - kStr8);
  } else {
    type = tag < kMap16 ? Type::kArray : Type::kMap;
    width = (tag & 1U) == 0 ? 2 : 4;
  }
  if (width > 0) {
    if (remaining() < 1 + width) return false;
    const std::uint64_t length = big_endian(at_ + 1, width);
    found = Head{type, 1 + width, 0, 0};
    if (type == Type::kArray) {
      found.values = length;
    } else if (type == Type::kMap) {
      found.values = 2 * length;
    } else {
      found.body_bytes = length + extra;
    }
  }
  // Every value that follows takes at least a byte.
  return remaining() - 1 >= (found.head_bytes - 1) + found.body_bytes + found.values;
}

Type Reader::peek() const {
  Head found;
  return head(found) ? found.type : Type::kNone;
}

bool Reader::nil() {
  if (at_ >= bytes_.size() || static_cast<std::uint8_t>(bytes_[at_]) != kNil) return false;
  ++at_;
  return true;
}

bool Reader::integer(Integer& value) {
  if (at_ >= bytes_.size()) return false;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  if (tag < 0x80) {
    value = Integer{tag, false};
    ++at_;
    return true;
  }
  if (tag >= kNegativeFixint) {
    value = Integer{~std::uint64_t{0xff} | tag, true};
    ++at_;
    return true;
  }
  if (tag < kUint8 || tag >= kFixExt1) return false;
  const std::size_t width = std::size_t{1} << ((tag - kUint8) & 3U);
  if (remaining() < 1 + width) return false;
  std::uint64_t bits = big_endian(at_ + 1, width);
  bool negative = false;
  if (tag >= kInt8 && (bits >> (8 * width - 1) & 1U) != 0) {
    negative = true;
    if (width < 8) bits |= ~std::uint64_t{0} << (8 * width);
  }
  value = Integer{bits, negative};
  at_ += 1 + width;
  return true;
}

bool Reader::number(double& value) {
  Integer whole;
  if (integer(whole)) {
    value =
        whole.negative ? static_cast<double>(static_cast<std::int64_t>(whole.bits)) : static_cast<double>(whole.bits);
    return true;
  }
  Head found;
  if (!head(found) || found.type != Type::kFloat) return false;
  const std::uint64_t bits = big_endian(at_ + 1, found.body_bytes);
  value = found.body_bytes == 8 ? std::bit_cast<double>(bits)
                                : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  at_ += found.head_bytes + found.body_bytes;
  return true;
}

bool Reader::span(Type type, std::string_view& value) {
  Head found;
  if (!head(found) || found.type != type) return false;
  value = bytes_.substr(at_ + found.head_bytes, found.body_bytes);
  at_ += found.head_bytes + found.body_bytes;
  return true;
}

bool Reader::text(std::string_view& value) { return span(Type::kText, value); }
bool Reader::bytes(std::string_view& value) { return span(Type::kBytes, value); }

bool Reader::collection(Type type, std::uint64_t values_each, std::uint32_t& size) {
  Head found;
  if (!head(found) || found.type != type) return false;
  size = static_cast<std::uint32_t>(found.values / values_each);
  at_ += found.head_bytes;
  return true;
}

bool Reader::array(std::uint32_t& size) { return collection(Type::kArray, 1, size); }
bool Reader::map(std::uint32_t& size) { return collection(Type::kMap, 2, size); }

bool Reader::skip() {
  const std::size_t start = at_;
  for (std::uint64_t pending = 1; pending > 0; --pending) {
    Head found;
    // More values than bytes left: no need to walk through them.
    if (!head(found) || pending > remaining()) {
      at_ = start;
      return false;
    }
    at_ += found.head_bytes + found.body_bytes;
    pending += found.values;
  }
  return true;
}

// --- Writing ------------------------------------------------------------------------------------------------------

void write_nil(std::string& out) { put(out, kNil); }

void write_unsigned(std::string& out, std::uint64_t value) {
  if (value < 0x80) {
    put(out, static_cast<std::uint8_t>(value));
  } else if (value <= 0xff) {
    put(out, kUint8, value, 1);
  } else if (value <= 0xffff) {
    put(out, kUint8 + 1, value, 2);
  } else if (value <= 0xffffffff) {
    put(out, kUint8 + 2, value, 4);
  } else {
    put(out, kUint8 + 3, value, 8);
  }
}

void write_signed(std::string& out, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0) {
    write_unsigned(out, bits);
  } else if (value >= -32) {
    put(out, static_cast<std::uint8_t>(bits));
  } else if (value >= std::numeric_limits<std::int8_t>::min()) {
    put(out, kInt8, bits, 1);
  } else if (value >= std::numeric_limits<std::int16_t>::min()) {
    put(out, kInt8 + 1, bits, 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min()) {
    put(out, kInt8 + 2, bits, 4);
  } else {
    put(out, kInt8 + 3, bits, 8);
  }
}

void write_double(std::string& out, double value) { put(out, kFloat64, std::bit_cast<std::uint64_t>(value), 8); }

void write_text(std::string& out, std::string_view value) {
  if (value.size() < 32) {
    put(out, static_cast<std::uint8_t>(0xa0U | value.size()));
  } else if (value.size() <= 0xff) {
    put(out, kStr8, value.size(), 1);
  } else if (value.size() <= 0xffff) {
    put(out, kStr8 + 1, value.size(), 2);
  } else {
    put(out, kStr8 + 2, value.size(), 4);
  }
  out.append(value);
}

void write_bytes(std::string& out, std::string_view value) {
  if (value.size() <= 0xff) {
    put(out, kBin8, value.size(), 1);
  } else if (value.size() <= 0xffff) {
    put(out, kBin8 + 1, value.size(), 2);
  } else {
    put(out, kBin8 + 2, value.size(), 4);
  }
  out.append(value);
}

void write_array(std::string& out, std::size_t size) {
  if (size < 16) {
    put(out, static_cast<std::uint8_t>(0x90U | size));
  } else if (size <= 0xffff) {
    put(out, kArray16, size, 2);
  } else {
    put(out, kArray16 + 1, size, 4);
  }
}

void write_map(std::string& out, std::size_t size) {
  if (size < 16) {
    put(out, static_cast<std::uint8_t>(0x80U | size));
  } else if (size <= 0xffff) {
    put(out, kMap16, size, 2);
  } else {
    put(out, kMap16 + 1, size, 4);
  }
}

}  // namespace kvern::engine::events::msgpack

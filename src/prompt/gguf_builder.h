// Writes small GGUF files, right and wrong ones, for tests and fuzz seeds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::prompt {

class GgufBuilder {
 public:
  template <typename T>
  GgufBuilder& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBuilder& text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes_ += value;
    return *this;
  }
  GgufBuilder& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    bytes_ += "GGUF";
    return number(version).number(tensors).number(keys);
  }
  GgufBuilder& key_text(std::string_view key, std::string_view value) {
    return text(key).number<std::uint32_t>(8).text(value);
  }
  GgufBuilder& key_u32(std::string_view key, std::uint32_t value) {
    return text(key).number<std::uint32_t>(4).number(value);
  }
  GgufBuilder& key_texts(std::string_view key, const std::vector<std::string>& values) {
    text(key).number<std::uint32_t>(9).number<std::uint32_t>(8).number<std::uint64_t>(values.size());
    for (const std::string& value : values) text(value);
    return *this;
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                      std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t size : dimensions) number(size);
    return number(type).number(offset);
  }
  GgufBuilder& data(std::size_t bytes, std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + bytes);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

/// A whole file with a two-token vocabulary and one tensor.
inline GgufBuilder tiny_gguf() {
  GgufBuilder file;
  file.header(1, 5)
      .key_text("general.architecture", "llama")
      .key_text("general.name", "tiny")
      .key_u32("llama.context_length", 128)
      .key_texts("tokenizer.ggml.tokens", {"a", "b"})
      .key_text("tokenizer.chat_template", "{{ messages[0].content }}")
      .tensor("weights", {4, 2}, 0, 0)
      .data(32);
  return file;
}

}  // namespace kvern::prompt

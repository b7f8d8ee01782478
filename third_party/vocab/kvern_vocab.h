// The vocabulary of a GGUF file, read and applied by llama.cpp's own llama-vocab.cpp, which is compiled here alone: a
// small stand-in replaces its model loader and its gguf_* functions, so neither ggml nor llama is linked. Everything
// lives in namespace kvern_vocab, so a program may link libllama as well without two definitions of one name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvern_vocab {

/// One metadata value. Numbers are kept as they stand in the file (little endian), aligned for their type.
struct Value {
  std::uint32_t type = 0;          // GGUF type code; 9 is an array
  std::uint32_t element_type = 0;  // of an array
  std::uint64_t count = 0;         // of an array
  std::vector<std::uint64_t> words;  // a scalar's or an array's bytes
  std::string text;                  // a string's bytes
  std::vector<std::string> strings;  // an array of strings
};
using Metadata = std::map<std::string, Value, std::less<>>;

/// How a token is treated; see Vocabulary::kind.
enum class Kind : std::uint8_t { kNormal, kByte, kUserDefined, kControl, kUnknown, kUnused };

/// Immutable after construction; thread-safe. Throws std::exception from the constructor for metadata it cannot use
/// and from `tokenize` where the vocabulary has no token for a byte.
class Vocabulary {
 public:
  explicit Vocabulary(const Metadata& metadata);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::uint32_t size() const;
  Kind kind(std::int32_t token) const;
  /// The token's own spelling in the vocabulary; for special tokens, what stands in a prompt.
  const std::string& spelling(std::int32_t token) const;
  /// The bytes a token stands for.
  const std::string& piece(std::int32_t token) const;
  bool ends_generation(std::int32_t token) const;
  /// Whitespace beside this token belongs to it (Phi-3, masks).
  bool strips_left(std::int32_t token) const;
  bool strips_right(std::int32_t token) const;
  /// -1 where the model has none.
  std::int32_t bos() const;
  std::int32_t eos() const;
  std::int32_t unknown() const;
  std::string type_name() const;
  /// How text is cut before tokenising can be general regular expressions, whose cost in time and stack depends on
  /// the text; callers then hand over short pieces.
  bool general_regex() const;

  /// Appends the tokens of plain text: no special or user-defined token is looked for in it.
  void tokenize(const std::string& text, bool add_special, std::vector<std::int32_t>& out) const;
  /// Appends one normal token for each character of `text`, or for each byte of it; nothing for what has neither.
  void spell_out(const std::string& text, std::vector<std::int32_t>& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvern_vocab

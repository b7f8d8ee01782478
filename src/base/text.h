// Small text helpers that several rooms need.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvern {

/// The candidate nearest to `word` by edit distance, if it is near enough to be a slip (at most 2, or a third of the
/// longer word). For "did you mean".
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// Shell-like match: `*` any run, `?` one byte. Linear space, O(pattern x text) at worst.
bool glob_match(std::string_view pattern, std::string_view text);

bool is_utf8(std::string_view text);

/// The length of the longest prefix of `text` that does not end inside a UTF-8 character (at most 3 bytes shorter).
std::size_t whole_utf8(std::string_view text);

/// The character that `text` begins with, and whether a terminal shows it. Not shown: what it may obey instead (control
/// characters, also those of two bytes), what hides or turns the text around it (marks of direction, line separators),
/// and bytes that are no UTF-8. `text` is not empty.
struct FirstCharacter {
  std::size_t bytes = 1;
  bool shown = false;
};
FirstCharacter first_character(std::string_view text);

/// `text` for a terminal: each byte of what is not shown as `\xHH`.
std::string printable(std::string_view text);

/// Percent-decoding as of RFC 3986; nullopt where a `%` is not followed by two hex digits.
std::optional<std::string> percent_decode(std::string_view text);

/// Empties a buffer of something that lives long, and gives back what one large piece made it take: room for small ones
/// (512 bytes) stays.
void clear_buffer(std::string& text);

/// Joins with `separator`.
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace kvern

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

/// The length of the longest prefix of `text` that does not end inside a UTF-8 character (at most 3 bytes shorter).
std::size_t whole_utf8(std::string_view text);

/// Percent-decoding as of RFC 3986; nullopt where a `%` is not followed by two hex digits.
std::optional<std::string> percent_decode(std::string_view text);

/// Joins with `separator`.
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace kvern

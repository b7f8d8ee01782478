// Cuts text into pieces for tokenizers whose first step is a general regular expression, since its recursion and time
// grow with the text it sees. Private to this room.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvern::prompt {

/// Pieces are at most this long. A cut is made before a space between two words, where every such tokenizer cuts as
/// well, so ids are the same; only a run of more than this many bytes without such a place is cut inside.
inline constexpr std::size_t kPieceBytes = 1024;

/// Bytes of the next piece of `text` (not empty): whole UTF-8 characters, at least one.
std::size_t next_piece(std::string_view text);

}  // namespace kvern::prompt

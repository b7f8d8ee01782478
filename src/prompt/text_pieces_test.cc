#include "prompt/text_pieces.h"

#include <gtest/gtest.h>

#include <string>

namespace kvern::prompt {
namespace {

TEST(TextPieces, CutsBeforeASpaceBetweenWords) {
  std::string text;
  while (text.size() < 5000) text += "word ";
  for (std::string_view left = text; left.size() > kPieceBytes;) {
    const std::size_t bytes = next_piece(left);
    EXPECT_LE(bytes, kPieceBytes);
    EXPECT_EQ(left[bytes], ' ');
    EXPECT_NE(left[bytes - 1], ' ');
    left.remove_prefix(bytes);
  }
}

TEST(TextPieces, NeverCutsACharacter) {
  std::string text;
  while (text.size() < 5000) text += "\xF0\x9F\x98\x80";
  text.insert(0, "a");
  for (std::string_view left = text; !left.empty();) {
    const std::size_t bytes = next_piece(left);
    ASSERT_GT(bytes, 0U);
    if (bytes < left.size()) {
      EXPECT_EQ(left[bytes], '\xF0');
    }
    left.remove_prefix(bytes);
  }
  EXPECT_EQ(next_piece("short"), 5U);
}

}  // namespace
}  // namespace kvern::prompt

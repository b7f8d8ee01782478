#include "base/base64.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace kvern {
namespace {

TEST(Base64, KnownTexts) {
  EXPECT_EQ(base64url(""), "");
  EXPECT_EQ(base64url("f"), "Zg");
  EXPECT_EQ(base64url("fo"), "Zm8");
  EXPECT_EQ(base64url("foo"), "Zm9v");
  EXPECT_EQ(base64url("\xFB\xFF\xBF"), "-_-_");
}

TEST(Base64, AnyBytesComeBack) {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    std::string bytes(rng.below(40), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.below(256));
    EXPECT_EQ(from_base64url(base64url(bytes)), bytes);
  }
}

TEST(Base64, WhatWeNeverWriteIsRefused) {
  for (const char* text : {"A", "Zg==", "Zh", "Zm+v", "Zm 9", "Zm9vY", "Zm9\xF6"})
    EXPECT_FALSE(from_base64url(text)) << text;
}

TEST(Base64, MediaHasTheOtherAlphabetAndItsPadding) {
  EXPECT_EQ(from_base64("aGVsbG8="), "hello");
  EXPECT_EQ(from_base64(""), "");
  for (const char* text : {"Zg==", "Zm8=", "Zm9v", "+/+/"}) EXPECT_TRUE(from_base64(text)) << text;
  for (const char* text : {"Zg", "Zg=", "Z===", "Zm9\n", "Zm-_", "=Zg=", "Zg==Zg==", "aGVs bG8=", "Zm\xC3\x9F"})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace kvern

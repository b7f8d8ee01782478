#include "prompt/token_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/rng.h"

namespace kvern::prompt {
namespace {

/// A pure function of the text, as a tokenizer is.
Tokens tokens_of(std::string_view text) {
  Tokens out;
  for (const char c : text) out.push_back(static_cast<TokenId>(c) * 7 + static_cast<TokenId>(text.size()));
  return out;
}

TEST(TokenCache, FindsWhatWasKeptAndAppends) {
  TokenCache cache(1 << 20);
  Tokens out{5};
  EXPECT_FALSE(cache.find("hello", out));
  cache.insert("hello", Tokens{1, 2});
  cache.insert("hello", Tokens{1, 2});
  EXPECT_TRUE(cache.find("hello", out));
  EXPECT_EQ(out, (Tokens{5, 1, 2}));
  EXPECT_FALSE(cache.find("hell", out));
  EXPECT_FALSE(cache.find("", out));
  cache.insert("", {});
  EXPECT_TRUE(cache.find("", out));
  EXPECT_EQ(out.size(), 3U);
}

TEST(TokenCache, WhatIsUsedStaysAndTheRestGoes) {
  TokenCache cache(64U << 10U);
  cache.insert("kept", tokens_of("kept"));
  Tokens out;
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = "text " + std::to_string(i);
    cache.insert(text, tokens_of(text));
    out.clear();
    ASSERT_TRUE(cache.find("kept", out)) << i;
    ASSERT_LE(cache.bytes(), 64U << 10U);
  }
  EXPECT_FALSE(cache.find("text 0", out));
  EXPECT_GT(cache.bytes(), 32U << 10U) << "the room is used";
}

TEST(TokenCache, ATextTooLargeForItsShareIsNotKept) {
  TokenCache cache(64U << 10U);
  const std::string large(4'000, 'x');
  cache.insert(large, tokens_of(large));
  Tokens out;
  EXPECT_FALSE(cache.find(large, out));
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(TokenCache, ThreadsGetTheirOwnTokens) {
  TokenCache cache(16U << 10U);  // small: much is evicted meanwhile
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&cache, seed] {
      Rng rng(seed);
      for (int i = 0; i < 3'000; ++i) {
        const std::string text = "t" + std::to_string(rng.next() % 200);
        Tokens out;
        if (!cache.find(text, out)) {
          cache.insert(text, tokens_of(text));
        } else {
          EXPECT_EQ(out, tokens_of(text));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvern::prompt

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
  EXPECT_FALSE(cache.find("t", "hello", out));
  cache.insert("t", "hello", Tokens{1, 2});
  cache.insert("t", "hello", Tokens{1, 2});
  EXPECT_TRUE(cache.find("t", "hello", out));
  EXPECT_EQ(out, (Tokens{5, 1, 2}));
  EXPECT_FALSE(cache.find("t", "hell", out));
  EXPECT_FALSE(cache.find("t", "", out));
  cache.insert("t", "", {});
  EXPECT_TRUE(cache.find("t", "", out));
  EXPECT_EQ(out.size(), 3U);
}

TEST(TokenCache, WhatOneNamespaceKeptIsNotThereForAnother) {
  TokenCache cache(1 << 20);
  cache.insert("a", "hello", Tokens{1});
  Tokens out;
  for (const auto& [name_space, text] : {std::pair("", "hello"), std::pair("b", "hello"), std::pair("ah", "ello")}) {
    EXPECT_FALSE(cache.find(name_space, text, out)) << name_space;
  }
  cache.insert("b", "hello", Tokens{1});
  EXPECT_TRUE(cache.find("b", "hello", out));
  EXPECT_TRUE(cache.find("a", "hello", out));
}

TEST(TokenCache, WhatIsUsedStaysAndTheRestGoes) {
  TokenCache cache(64U << 10U);
  cache.insert("t", "kept", tokens_of("kept"));
  Tokens out;
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = "text " + std::to_string(i);
    cache.insert("t", text, tokens_of(text));
    out.clear();
    ASSERT_TRUE(cache.find("t", "kept", out)) << i;
    ASSERT_LE(cache.bytes(), 64U << 10U);
  }
  EXPECT_FALSE(cache.find("t", "text 0", out));
  EXPECT_GT(cache.bytes(), 32U << 10U) << "the room is used";
}

TEST(TokenCache, ATextTooLargeForItsShareIsNotKept) {
  TokenCache cache(64U << 10U);
  const std::string large(4'000, 'x');
  cache.insert("t", large, tokens_of(large));
  Tokens out;
  EXPECT_FALSE(cache.find("t", large, out));
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
        if (!cache.find("t", text, out)) {
          cache.insert("t", text, tokens_of(text));
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

#include "prompt/gguf_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "prompt/gguf_builder.h"
#include "prompt/gguf_types.h"

namespace kvern::prompt {
namespace {

using testing::HasSubstr;

const std::filesystem::path kSmolLm = std::filesystem::path(KVERN_CACHE) / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";

std::string fault_of(std::string_view bytes) {
  const Result<GgufInfo> info = inspect_bytes(std::as_bytes(std::span(bytes)));
  return info.ok() ? "" : info.error().message;
}

TEST(GgufCheck, ReadsWhatTheModelSays) {
  const Result<GgufInfo> info = inspect_bytes(tiny_gguf().span());
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->architecture, "llama");
  EXPECT_EQ(info->name, "tiny");
  EXPECT_EQ(info->context_tokens, 128U);
  EXPECT_EQ(info->vocab_tokens, 2U);
  EXPECT_EQ(info->tensors, 1U);
  EXPECT_EQ(info->chat_template, "{{ messages[0].content }}");
}

TEST(GgufCheck, EveryTruncationIsRefused) {
  const std::string whole = tiny_gguf().bytes();
  EXPECT_EQ(fault_of(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(fault_of(std::string_view(whole).substr(0, size)), "") << size;
  }
}

struct BrokenFile {
  const char* name;
  GgufBuilder file;
  const char* fault;
};

std::vector<BrokenFile> broken_files() {
  const auto keys = [](std::uint64_t count) { return GgufBuilder().header(0, count); };
  const auto tensors = [](std::uint64_t count) { return GgufBuilder().header(count, 0); };
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  return {
      {"magic", GgufBuilder().text("not a model at all"), "does not begin with GGUF"},
      {"version 1", GgufBuilder().header(0, 0, 1), "version is 1"},
      {"version 4", GgufBuilder().header(0, 0, 4), "version is 4"},
      {"big endian", GgufBuilder().header(0, 0, 0x03000000), "big-endian"},
      {"key count", GgufBuilder().header(0, kHuge), "number of keys"},
      {"tensor count", GgufBuilder().header(kHuge, 0), "number of tensors"},
      {"key count beyond the file", keys(1000).data(64), "number of keys"},
      {"key length", keys(1).number(kHuge).data(64), "past the end of the file"},
      {"key length over the limit", keys(1).text(std::string(70'000, 'k')).data(64), "over the limit"},
      {"empty key", keys(1).key_u32("", 1).data(64), "key 0 is empty"},
      {"key twice", keys(2).key_u32("a", 1).key_u32("a", 2), "`a` stands twice"},
      {"unknown type", keys(1).text("a").number<std::uint32_t>(77).data(64), "unknown type 77"},
      {"string length", keys(1).text("a").number<std::uint32_t>(8).number(kHuge).data(64), "past the end"},
      {"kept string length", keys(1).text("general.name").number<std::uint32_t>(8).number(kHuge).data(64),
       "past the end"},
      {"nested array",
       keys(1).text("a").number<std::uint32_t>(9).number<std::uint32_t>(9).number<std::uint64_t>(1).data(64),
       "elements of type 9"},
      {"array length",
       keys(1).text("a").number<std::uint32_t>(9).number<std::uint32_t>(4).number(kHuge / 4 + 2).data(64),
       "past the end"},
      {"array of strings",
       keys(1).text("a").number<std::uint32_t>(9).number<std::uint32_t>(8).number<std::uint64_t>(1).number(kHuge).data(
           64),
       "past the end"},
      {"alignment 0", keys(1).key_u32("general.alignment", 0), "alignment 0"},
      {"alignment 24", keys(1).key_u32("general.alignment", 24), "power of two"},
      {"alignment as text", keys(1).key_text("general.alignment", "32"), "not a 32-bit number"},
      {"token too long", keys(1).key_texts("tokenizer.ggml.tokens", {std::string(5000, 'x')}), "token 0"},
      {"token twice", keys(1).key_texts("tokenizer.ggml.tokens", {"a", "b", "a"}), "token 2 `a` stands twice"},
      {"tokens as text", keys(1).key_text("tokenizer.ggml.tokens", "abc"), "not an array of strings"},
      {"scores too few",
       keys(2)
           .key_texts("tokenizer.ggml.tokens", {"a", "b"})
           .text("tokenizer.ggml.scores")
           .number<std::uint32_t>(9)
           .number<std::uint32_t>(6)
           .number<std::uint64_t>(1)
           .number(1.0F),
       "1 entries for 2 tokens"},
      {"no layers", keys(2).key_text("general.architecture", "llama").key_u32("llama.block_count", 0), "0 layers"},
      {"too many layers", keys(2).key_text("general.architecture", "llama").key_u32("llama.block_count", 65'535),
       "65535 layers"},
      {"epsilon no number",
       keys(2)
           .key_text("general.architecture", "llama")
           .text("llama.attention.layer_norm_rms_epsilon")
           .number<std::uint32_t>(6)
           .number(std::numeric_limits<float>::quiet_NaN()),
       "layer_norm_rms_epsilon"},
      {"epsilon negative",
       keys(2)
           .key_text("general.architecture", "llama")
           .text("llama.attention.layer_norm_epsilon")
           .number<std::uint32_t>(6)
           .number(-1.0F),
       "layer_norm_epsilon"},
      {"tensor name too long", tensors(1).tensor(std::string(64, 'n'), {1}, 0, 0).data(64), "over the limit"},
      {"five dimensions", tensors(1).tensor("t", {1, 1, 1, 1, 1}, 0, 0).data(64), "5 dimensions"},
      {"negative dimension", tensors(1).tensor("t", {kHuge}, 0, 0).data(64), "negative dimension"},
      {"product overflow", tensors(1).tensor("t", {1ULL << 32U, 1ULL << 32U}, 0, 0).data(64), "more elements"},
      {"product overflow behind a zero", tensors(1).tensor("t", {0, 1ULL << 62U, 1ULL << 62U}, 0, 0).data(64), ""},
      {"bytes overflow", tensors(1).tensor("t", {1ULL << 62U}, 28, 0).data(64), "more than the file"},
      {"unknown tensor type", tensors(1).tensor("t", {32}, 4, 0).data(64), "unknown type 4"},
      {"tensor type far out", tensors(1).tensor("t", {32}, 0xFFFFFFFF, 0).data(64), "unknown type"},
      {"rows not of whole blocks", tensors(1).tensor("t", {33}, 2, 0).data(64), "not a multiple of 32"},
      {"data past the end", tensors(1).tensor("t", {24}, 0, 0).data(64), "past the end of the file"},
      {"offset", tensors(1).tensor("t", {4}, 0, 64).data(96), "starts at 64"},
      {"offset huge", tensors(1).tensor("t", {4}, 0, kHuge - 31).data(96), "starts at"},
      {"tensors overlap", tensors(2).tensor("t", {8}, 0, 0).tensor("u", {8}, 0, 0).data(96), "instead of 32"},
      {"tensor twice", tensors(2).tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).data(96), "stands twice"},
  };
}

TEST(GgufCheck, BrokenFilesAreRefusedWithTheirFault) {
  for (const BrokenFile& broken : broken_files()) {
    EXPECT_THAT(fault_of(broken.file.bytes()), HasSubstr(broken.fault)) << broken.name;
  }
}

TEST(GgufCheck, TheDefaultModelPassesQuickly) {
  const auto start = std::chrono::steady_clock::now();
  const Result<GgufInfo> info = inspect(kSmolLm);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->context_tokens, 8192U);
  EXPECT_EQ(info->vocab_tokens, 49'152U);
  EXPECT_EQ(info->tokenizer_model, "gpt2");
  EXPECT_LT(seconds, 2);  // 30 ms on a busy machine, whatever the size of its tensors
}

TEST(GgufCheck, TheDefaultModelTruncatedAtEveryKilobyteIsRefused) {
  std::ifstream file(kSmolLm, std::ios::binary);
  std::string head(4U << 20U, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  for (std::size_t size = 0; size < head.size(); size += size < (64U << 10U) ? 1024 : 64U << 10U) {
    EXPECT_NE(fault_of(std::string_view(head).substr(0, size)), "") << size;
  }
}

TEST(GgufCheck, WhatIsNoFileIsAnError) {
  EXPECT_EQ(inspect("/nowhere/model.gguf").error().message, "there is no such file");
  EXPECT_EQ(inspect(std::filesystem::temp_directory_path()).error().message, "it is not a regular file");
}

/// The table of block sizes is complete for the pinned ggml: as many types as its header has.
TEST(GgufCheck, KnowsEveryTensorTypeOfGgml) {
  std::ifstream file(std::filesystem::path(KVERN_CACHE) / "llama.cpp/ggml/include/ggml.h");
  const std::string header{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(header, HasSubstr("GGML_TYPE_COUNT   = 43"));
  EXPECT_EQ(tensor_block(43).bytes, 0U);
  EXPECT_EQ(tensor_block(42).bytes, 18U);
}

}  // namespace
}  // namespace kvern::prompt

#include "sim/sim_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "prompt/detokenizer.h"
#include "sim/sim_backend.h"

namespace kvern::sim {
namespace {

std::string text_of(const Tokens& tokens) {
  const SimTokenizer tokenizer;
  prompt::Detokenizer detokenizer(tokenizer, false);
  std::string text;
  for (const TokenId token : tokens) detokenizer.add(token, text);
  detokenizer.finish(text);
  return text;
}

/// The answer without stop conditions of the request.
Tokens raw_answer(const Tokens& prompt, std::size_t count) {
  ModelState state = kNothingRead;
  for (const TokenId token : prompt) state = read(state, token);
  Tokens answer;
  while (answer.size() < count) {
    answer.push_back(next_token(state, false));
    state = read(state, answer.back());
  }
  return answer;
}

TEST(SimTokenizer, WordsAndBytesComeBack) {
  const SimTokenizer tokenizer;
  EXPECT_EQ(tokenizer.encode_text("abclll", false), (Tokens{0 * 144 + 1 * 12 + 2, kWords - 1}));
  for (const std::string text : {"", "abc", "user:abcabl\n", "ab", "xabc", "\xC3\xA9", "aaaé"}) {
    EXPECT_EQ(text_of(tokenizer.encode_text(text, false)), text);
  }
  EXPECT_EQ(tokenizer.piece(kEndToken, false), "");
  EXPECT_TRUE(tokenizer.in_range(kEndToken));
  EXPECT_FALSE(tokenizer.in_range(kEndToken + 1));
}

TEST(SimModel, AnAnswerDependsOnEveryTokenBeforeIt) {
  const Tokens prompt = raw_answer({1}, 40);
  const Tokens answer = raw_answer(prompt, 8);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    Tokens other = prompt;
    other[i] = (other[i] + 1) % kWords;
    EXPECT_NE(raw_answer(other, 8), answer) << i;
    other = prompt;
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(raw_answer(other, 8), answer) << i;
    other = prompt;
    other.insert(other.begin() + static_cast<std::ptrdiff_t>(i), other[i]);
    EXPECT_NE(raw_answer(other, 8), answer) << i;
  }
}

/// A prompt whose answer is words only for its first tokens.
Tokens wordy_prompt() {
  for (TokenId first = 0;; ++first) {
    const Tokens answer = raw_answer({first}, 12);
    if (std::ranges::all_of(answer, [](TokenId token) { return token < kWords && token > 0; })) return {first};
  }
}

TEST(ExpectedAnswer, FollowsTheWordsOfStopping) {
  const Tokens prompt = wordy_prompt();
  const Tokens raw = raw_answer(prompt, 12);
  const std::string text = text_of(raw);
  ir::Stopping stopping;

  auto expected = expected_answer(prompt, 12, stopping);
  EXPECT_EQ(expected.text, text);
  EXPECT_EQ(expected.reason, ir::FinishReason::kLength);
  EXPECT_EQ(expected.completion_tokens, 12U);

  stopping.token_ids = {raw[5]};
  expected = expected_answer(prompt, 12, stopping);
  EXPECT_EQ(expected.text, text.substr(0, 15));
  EXPECT_EQ(expected.reason, ir::FinishReason::kStop);
  EXPECT_EQ(expected.completion_tokens, 6U);  // the token that stopped it counts

  stopping.min_tokens = 6;
  EXPECT_EQ(expected_answer(prompt, 12, stopping).text.substr(0, 18), text.substr(0, 18));

  stopping = {};
  stopping.strings = {text.substr(7, 4)};  // tokens 2 and 3
  expected = expected_answer(prompt, 12, stopping);
  EXPECT_EQ(expected.text, text.substr(0, text.find(stopping.strings[0])));
  EXPECT_EQ(expected.reason, ir::FinishReason::kStopString);
  EXPECT_EQ(expected.stop_string, stopping.strings[0]);
  EXPECT_EQ(expected.completion_tokens, 4U);

  stopping.strings = {"zzz", text.substr(3, 6), text.substr(6, 3)};  // both complete at byte 9: the longer wins
  EXPECT_EQ(expected_answer(prompt, 12, stopping).stop_string, text.substr(3, 6));
}

engine::BatchToken token_of(TokenId token, std::int32_t position, engine::SequenceId sequence, bool sampled = false) {
  return {.token = token, .position = position, .sequence = sequence, .sampled = sampled};
}

TEST(SimBackend, AnswersFromItsCellsAndGivesGarbageForForeignOnes) {
  SimBackend backend(16, 3);
  const auto sampler = backend.make_sampler({}, {});
  const engine::BatchToken first[] = {token_of(5, 0, 0), token_of(6, 1, 0, true)};
  ASSERT_EQ(backend.decode(first), engine::DecodeStatus::kOk);
  const TokenId right = sampler->sample(1, false).token;
  EXPECT_EQ(right, raw_answer({5, 6}, 1)[0]);

  std::vector<kv::CellId> cells;
  backend.cells(0, 0, 2, cells);
  backend.hold(cells);
  backend.remove(0, 0, -1);
  EXPECT_EQ(backend.cells_used(), 2U);

  // Both cells: as if computed. The second cell behind a foreign first one: garbage.
  backend.attach(1, cells);
  const engine::BatchToken second[] = {token_of(7, 2, 1, true)};
  ASSERT_EQ(backend.decode(second), engine::DecodeStatus::kOk);
  EXPECT_EQ(sampler->sample(0, false).token, raw_answer({5, 6, 7}, 1)[0]);
  const engine::BatchToken foreign[] = {token_of(9, 0, 2)};
  ASSERT_EQ(backend.decode(foreign), engine::DecodeStatus::kOk);
  backend.attach(2, std::span(cells).subspan(1));
  const engine::BatchToken third[] = {token_of(7, 2, 2, true)};
  ASSERT_EQ(backend.decode(third), engine::DecodeStatus::kOk);
  EXPECT_NE(sampler->sample(0, false).token, raw_answer({5, 6, 7}, 1)[0]);
  EXPECT_NE(sampler->sample(0, false).token, raw_answer({9, 6, 7}, 1)[0]);

  backend.remove(1, 0, -1);
  backend.remove(2, 0, -1);
  EXPECT_EQ(backend.cells_used(), 2U);
  backend.unhold(cells);
  EXPECT_EQ(backend.cells_used(), 0U);
}

TEST(SimBackend, AFailedDecodeLeavesHalfOfTheBatch) {
  SimBackend backend(8, 1);
  backend.fail_decodes(1);
  const engine::BatchToken batch[] = {token_of(5, 0, 0), token_of(6, 1, 0, true)};
  EXPECT_EQ(backend.decode(batch), engine::DecodeStatus::kFailed);
  EXPECT_EQ(backend.cells_used(), 1U);
  backend.remove(0, 0, -1);
  EXPECT_EQ(backend.decode(batch), engine::DecodeStatus::kOk);
  const auto work = backend.take_work();
  EXPECT_EQ(work.prefill_tokens, 3U);
  EXPECT_EQ(work.decode_tokens, 0U);
}

}  // namespace
}  // namespace kvern::sim

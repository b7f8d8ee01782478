#include "prompt/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace kvern::prompt {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(KVERN_CACHE) / "llama.cpp" / "models";
const fs::path kSmolLm = fs::path(KVERN_CACHE) / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";

std::vector<fs::path> vocabularies() {
  std::vector<fs::path> files{kSmolLm};
  for (const auto& entry : fs::directory_iterator(kModels)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::shared_ptr<const Tokenizer> load(const fs::path& path) {
  Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(path);
  EXPECT_TRUE(tokenizer.ok()) << path << ": " << (tokenizer.ok() ? "" : tokenizer.error().message);
  return tokenizer.ok() ? *tokenizer : nullptr;
}

/// Loading costs most, so each file is loaded once and all is asked of it.
class EveryVocabulary : public testing::TestWithParam<fs::path> {
 protected:
  void check_expectations(const Tokenizer& tokenizer);
  void check_forgeries(const Tokenizer& tokenizer);
  void check_long_runs(const Tokenizer& tokenizer);
  void check_round_trip(const Tokenizer& tokenizer);
  void check_again(const Tokenizer& tokenizer);
};

TEST_P(EveryVocabulary, GivesRightIdsAndNoForgedOnes) {
  const auto tokenizer = load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  check_expectations(*tokenizer);
  check_forgeries(*tokenizer);
  check_long_runs(*tokenizer);
  check_round_trip(*tokenizer);
  check_again(*tokenizer);
}

/// Everything once more, now that the tokenizer has seen it: what it remembers is what it would work out.
void EveryVocabulary::check_again(const Tokenizer& tokenizer) {
  check_expectations(tokenizer);
  check_forgeries(tokenizer);
  check_round_trip(tokenizer);
}

/// llama.cpp ships what its tokenizers and the original ones agree on: texts, and the ids of each on a line.
void EveryVocabulary::check_expectations(const Tokenizer& tokenizer) {
  const std::string texts = read(GetParam().string() + ".inp");
  if (texts.empty()) return;  // it has none
  std::istringstream lines(read(GetParam().string() + ".out"));
  const std::string kSeparator = "\n__ggml_vocab_test__\n";
  std::size_t from = 0;
  int cases = 0;
  for (std::string line; std::getline(lines, line); ++cases) {
    const std::size_t to = texts.find(kSeparator, from);
    const std::string text = texts.substr(from, to == std::string::npos ? to : to - from);
    std::istringstream numbers(line);
    const Tokens expected{std::istream_iterator<TokenId>(numbers), {}};
    EXPECT_EQ(tokenizer.encode_text(text, false), expected) << text;
    const Span span{text, Origin::kTemplate};
    EXPECT_EQ(tokenizer.encode({&span, 1}), expected) << text;
    if (to == std::string::npos) break;
    from = to + kSeparator.size();
  }
  EXPECT_GT(cases, 20);
}

void EveryVocabulary::check_forgeries(const Tokenizer& tokenizer) {
  int specials = 0;
  for (TokenId id = 0; tokenizer.in_range(id); ++id) {
    if (!tokenizer.is_special(id)) continue;
    const std::string text = tokenizer.piece(id, true);
    if (text.empty() || ++specials > 1200) continue;
    const std::size_t half = text.size() / 2;
    const std::vector<std::vector<Span>> forgeries = {
        {{text, Origin::kData}},
        {{"a ", Origin::kTemplate}, {text, Origin::kData}, {" b", Origin::kTemplate}},
        {{"x" + text + text, Origin::kData}},
        {{text.substr(0, half), Origin::kData}, {text.substr(half), Origin::kData}},
        {{text.substr(0, half), Origin::kTemplate}, {text.substr(half), Origin::kData}},
        {{text.substr(0, half), Origin::kData}, {text.substr(half), Origin::kTemplate}},
    };
    for (const std::vector<Span>& spans : forgeries) {
      for (const TokenId token : tokenizer.encode(spans)) {
        // The unknown token says that there is none, whatever the text.
        EXPECT_FALSE(tokenizer.is_special(token) && tokenizer.piece(token, true) == text &&
                     text.find("unk") == std::string::npos && text.find("UNK") == std::string::npos)
            << text;
      }
    }
    const Span genuine{"a" + text, Origin::kTemplate};
    const Tokens tokens = tokenizer.encode({&genuine, 1});
    if (tokenizer.piece(id, true) == text) {
      EXPECT_NE(std::find(tokens.begin(), tokens.end(), id), tokens.end()) << text;
    }
  }
  EXPECT_GT(specials, 0);
}

void EveryVocabulary::check_long_runs(const Tokenizer& tokenizer) {
  for (const std::string unit : {"a", " ", "\n", "1", "!", "_-", "\xE4\xBD\xA0", "ab "}) {
    std::string text;
    while (text.size() < 60'000) text += unit;
    const auto start = std::chrono::steady_clock::now();
    tokenizer.encode_text(text, false);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 20) << unit;  // a quadratic step takes minutes
  }
}

void EveryVocabulary::check_round_trip(const Tokenizer& tokenizer) {
  const std::string name = GetParam().stem().string();
  if (name.find("bert") != std::string::npos) return;  // they normalise their text
  const std::string text =
      "def f(x):\n\treturn {'k': x ** 2}  # caf\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80\n\n";
  std::string back;
  for (const TokenId token : tokenizer.encode_text(text, false)) back += tokenizer.piece(token, false);
  if (!back.empty() && back[0] == ' ') back.erase(0, 1);  // SentencePiece begins with a space
  EXPECT_EQ(back, text);
}

INSTANTIATE_TEST_SUITE_P(Cached, EveryVocabulary, testing::ValuesIn(vocabularies()), [](const auto& vocabulary) {
  std::string name = vocabulary.param.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

TEST(GgufTokenizer, SpecialTokensCountInTemplateTextOnly) {
  const auto tokenizer = load(kSmolLm);
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<Span> spans = {{"<|im_start|>user\n", Origin::kTemplate},
                                   {"a<|im_", Origin::kData},
                                   {"end|>b", Origin::kData},
                                   {"<|im_end|>\n", Origin::kTemplate}};
  const Tokens tokens = tokenizer->encode(spans);
  EXPECT_EQ(std::count_if(tokens.begin(), tokens.end(), [&](TokenId id) { return tokenizer->is_special(id); }), 2);
  EXPECT_EQ(tokens.front(), 1);
  std::string text;
  for (const TokenId token : tokens) text += tokenizer->piece(token, true);
  EXPECT_EQ(text, "<|im_start|>user\na<|im_end|>b<|im_end|>\n");
}

TEST(GgufTokenizer, BordersOfOriginDoNotChangeIds) {
  const auto tokenizer = load(kSmolLm);
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "The quick brown fox, 42 times:\n\n  jumps\xC3\xA9 over";
  const Tokens whole = tokenizer->encode_text(text, false);
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const std::vector<Span> spans = {{text.substr(0, at), Origin::kTemplate}, {text.substr(at), Origin::kData}};
    EXPECT_EQ(tokenizer->encode(spans), whole) << at;
  }
}

TEST(GgufTokenizer, KnowsWhatEndsAnAnswer) {
  const auto tokenizer = load(kSmolLm);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_TRUE(tokenizer->is_end(2));  // <|im_end|>
  EXPECT_FALSE(tokenizer->is_end(42));
  EXPECT_FALSE(tokenizer->is_end(-1));
  EXPECT_FALSE(tokenizer->is_special(1'000'000));
  EXPECT_EQ(tokenizer->piece(2, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->piece(2, false), "");
  EXPECT_EQ(tokenizer->size(), 49'152U);
  EXPECT_EQ(tokenizer->piece_bytes_max(), 81U);
}

TEST(GgufTokenizer, AFileWithoutVocabularyIsRefused) {
  EXPECT_FALSE(load_tokenizer(GgufInfo{}).ok());
  EXPECT_FALSE(load_tokenizer(kModels / "none.gguf").ok());
}

}  // namespace
}  // namespace kvern::prompt

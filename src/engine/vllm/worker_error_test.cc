#include "engine/vllm/worker_error.h"

#include <gtest/gtest.h>

namespace kvern::engine {
namespace {

TEST(WorkerError, OnlyWordsAreForTheLog) {
  for (const char* word : {"BadRequestError", "input_tokens", "a.b-c", "E2"}) EXPECT_EQ(loggable_word(word), word);
  for (const std::string& text :
       {std::string(), std::string("two words"), std::string("[504,3575]"), std::string("504"),
        std::string("caf\u00e9"), std::string("a\n"), std::string("\\u0061"), std::string(65, 'a')}) {
    EXPECT_EQ(loggable_word(text), "") << text;
  }
}

TEST(WorkerError, TypeAndFieldAreToldAndNoText) {
  struct Row {
    const char* body;
    const char* type;
    const char* param;
  };
  const Row rows[] = {
      {R"({"error":{"message":"bad [504,3575]","type":"BadRequestError","param":"prompt","code":400}})",
       "BadRequestError", "prompt"},
      {R"({"message":"my secret","type":"Internal Server Error","param":null})", "", ""},
      {R"({"error":{"type":"[504,3575,314]","param":"504, 3575"}})", "", ""},
      {R"({"detail":[{"type":"int_parsing","input":"504 3575"}]})", "", ""},
      {"my secret", "", ""},
      {"", "", ""},
  };
  for (const auto& row : rows) {
    const Refusal refusal = read_refusal(500, {}, row.body);
    EXPECT_EQ(refusal.type, row.type) << row.body;
    EXPECT_EQ(refusal.param, row.param) << row.body;
    EXPECT_EQ(refusal.error.message, "The worker failed on this request.");
  }
}

}  // namespace
}  // namespace kvern::engine

#include "app/workers_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::app {
namespace {

using ::testing::HasSubstr;

Result<std::vector<WorkerSpec>> parse(const std::string& text) {
  return parse_workers(text, "/etc/kvern/workers.yaml");
}

TEST(WorkersFile, ReadsYamlAndJson) {
  const auto specs = parse(
      "workers:\n"
      "  - {name: a, kind: vllm, url: 'http://10.0.0.5:8000/v1', tokenizer: m.gguf, model: big, api_key_env: KEY}\n"
      "  - name: b\n    kind: kvern\n    url: http://[::1]:9\n    tokenizer: /m.gguf\n    parser: plain\n    bind: "
      "true\n");
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  ASSERT_EQ(specs->size(), 2U);
  EXPECT_EQ(specs->at(0).at.host, "10.0.0.5");
  EXPECT_EQ(specs->at(0).at.port, 8000);
  EXPECT_EQ(specs->at(0).at.path, "");
  EXPECT_EQ(specs->at(0).tokenizer, "/etc/kvern/m.gguf");
  EXPECT_EQ(specs->at(0).parser, "hermes");
  EXPECT_EQ(specs->at(1).at.host, "::1");
  EXPECT_TRUE(specs->at(1).bind);
  EXPECT_TRUE(parse(R"({"workers": [{"name": "a", "kind": "vllm", "url": "http://h", "tokenizer": "/m.gguf"}]})").ok());
}

TEST(WorkersFile, SaysWhatIsWrongAndWhatThereIs) {
  const auto one = [](const std::string& fields) { return "workers: [{" + fields + "}]\n"; };
  const std::string good = "name: a, kind: vllm, url: 'http://h:1', tokenizer: /m.gguf";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "a map with `workers`"},
      {"[]", "a map with `workers`"},
      {"workers: []", "at least one"},
      {"worker: [{" + good + "}]", "did you mean `workers`?"},
      {one(good + ", tokeniser: x"), "did you mean `tokenizer`?"},
      {one(good + ", name: b"), "stands here twice"},
      {"workers: [{" + good + "}, {" + good + "}]", "two workers are named `a`"},
      {one("kind: vllm, url: 'http://h'"), "needs `name`"},
      {one("name: a, url: 'http://h'"), "needs `kind`"},
      {one("name: a, kind: vllm"), "needs `url`"},
      {one("name: a, kind: sglang, url: 'http://h'"), "kind `sglang` is not built yet; built are: vllm, kvern"},
      {one("name: a, kind: tgi, url: 'http://h'"), "there is no kind `tgi`; kinds are: vllm, kvern"},
      {one("name: a, kind: vllm, url: 'http://h'"), "`tokenizer` is missing"},
      {one(good + ", parser: qwen3"), "there is no parser `qwen3` yet; there are: hermes, plain"},
      {one("name: a, kind: vllm, url: 'https://h', tokenizer: /m"), "https is not spoken"},
      {one("name: a, kind: vllm, url: 'http://u:p@h', tokenizer: /m"), "nothing more"},
      {one("name: a, kind: vllm, url: 'http://h:0', tokenizer: /m"), "1 to 65535"},
      {one("name: a, kind: vllm, url: 'http://h', tokenizer: /tmp"), "Hugging Face folders are not read yet"},
      {one("name: 'a b', kind: vllm, url: 'http://h', tokenizer: /m"), "a name is a word"},
      {one(good + ", bind: maybe"), "`bind` is true or false"},
      {one("name: [a]"), "`name` has one value"},
      {"workers: [\n", "line"},
      {"a: 1\n---\nb: 2\n", "several YAML documents"}};
  for (const auto& [text, said] : rows) {
    const auto specs = parse(text);
    ASSERT_FALSE(specs.ok()) << text;
    EXPECT_THAT(specs.error().message, HasSubstr(said)) << text;
    EXPECT_THAT(specs.error().message, HasSubstr("/etc/kvern/workers.yaml")) << text;
  }
}

TEST(WorkersFile, EqualSpecsAreEqual) {
  const std::string text = "workers: [{name: a, kind: vllm, url: 'http://h:1', tokenizer: /m.gguf}]";
  EXPECT_EQ(parse(text)->front(), parse(text)->front());
  auto other = parse(text)->front();
  other.bind = true;
  EXPECT_FALSE(other == parse(text)->front());
}

}  // namespace
}  // namespace kvern::app

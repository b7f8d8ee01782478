// Every chat template that llama.cpp ships (70 published models): each compiles, and prints or refuses a conversation
// with all kinds of blocks; no data in it can become template text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "prompt/jinja_template.h"

namespace kvern::prompt {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> templates() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(KVERN_CACHE) / "llama.cpp/models/templates")) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

ir::Request conversation(const std::string& mark) {
  const auto one = [](ir::Role role, ir::Content content) { return ir::Message{role, "", {{std::move(content), {}}}}; };
  ir::Request request;
  ir::Message calling{ir::Role::kAssistant, "", {}};
  calling.blocks.push_back({ir::Thinking{mark + "thought", "", ""}, {}});
  calling.blocks.push_back({ir::ToolCall{"call12345", "list_files", R"({"path": ")" + mark + R"(", "depth": 2})"}, {}});
  request.prompt = std::vector<ir::Message>{
      one(ir::Role::kSystem, ir::Text{mark + "system"}),
      one(ir::Role::kUser, ir::Text{mark + "question"}),
      calling,
      one(ir::Role::kTool, ir::ToolResult{"call12345", "list_files", {ir::Text{mark + "result"}}, false}),
      one(ir::Role::kAssistant, ir::Text{mark + "answer"}),
      one(ir::Role::kUser, ir::Text{mark + "more"}),
  };
  request.tools = {{"list_files", mark + "Lists files.",
                    R"({"type": "object", "properties": {"path": {"type": "string", "description": ")" + mark +
                        R"("}, "depth": {"type": "integer"}}, "required": ["path"]})",
                    false}};
  return request;
}

class PublishedTemplate : public testing::TestWithParam<fs::path> {};

TEST_P(PublishedTemplate, PrintsAWholeConversation) {
  std::ifstream file(GetParam());
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  const auto chat = compile_template(source, {"<bos>", "<eos>"});
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ((*chat)->traits().warning, "");

  const std::string mark = "<|kvern-mark|>";
  ir::Request request = conversation(mark);
  auto spans = (*chat)->render(request);
  if (!spans.ok()) {
    RecordProperty("refuses", spans.error().message);
    std::printf("[ refuses  ] %s: %s\n", GetParam().stem().c_str(), spans.error().message.c_str());
    EXPECT_EQ(spans.error().code, ErrorCode::kInvalidRequest);
    request.tools.clear();
    request.prompt = std::vector<ir::Message>{{ir::Role::kUser, "", {{ir::Text{mark + "question"}, {}}}}};
    spans = (*chat)->render(request);
    ASSERT_TRUE(spans.ok()) << spans.error().message;
  }
  std::string text;
  for (const Span& span : *spans) {
    text += span.text;
    if (span.origin == Origin::kTemplate) {
      EXPECT_EQ(span.text.find(mark), std::string::npos) << span.text;
    }
  }
  EXPECT_NE(text.find(mark + "question"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Fetched, PublishedTemplate, testing::ValuesIn(templates()), [](const auto& published) {
  std::string name = published.param.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

}  // namespace
}  // namespace kvern::prompt

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ir/event.h"
#include "ir/request.h"

namespace kvern::ir {
namespace {

TEST(Values, NamesAreDistinctAndStable) {
  const std::set<std::string> roles{to_string(Role::kSystem), to_string(Role::kDeveloper), to_string(Role::kUser),
                                    to_string(Role::kAssistant), to_string(Role::kTool)};
  EXPECT_EQ(roles, (std::set<std::string>{"system", "developer", "user", "assistant", "tool"}));
  const std::set<std::string> kinds{to_string(BlockKind::kText), to_string(BlockKind::kThinking),
                                    to_string(BlockKind::kToolCall)};
  EXPECT_EQ(kinds, (std::set<std::string>{"text", "thinking", "tool_call"}));
  const std::set<std::string> reasons{to_string(FinishReason::kStop), to_string(FinishReason::kStopString),
                                      to_string(FinishReason::kLength), to_string(FinishReason::kToolCalls)};
  EXPECT_EQ(reasons, (std::set<std::string>{"stop", "stop_string", "length", "tool_calls"}));
}

TEST(Values, CopiesAreEqualUntilTheyChange) {
  Request request;
  request.model = "m";
  request.prompt =
      std::vector<Message>{{Role::kUser, {}, {{Text{"hi"}, CacheMark{}}}},
                           {Role::kAssistant, {}, {{Thinking{"t", "s", "e"}, {}}, {ToolCall{"c", "f", "{}"}, {}}}},
                           {Role::kTool, {}, {{ToolResult{"c", "f", {Text{"x"}, Text{"y"}}, true}, {}}}}};
  Request copy = request;
  EXPECT_EQ(copy, request);
  std::get<ToolResult>(std::get<std::vector<Message>>(copy.prompt)[2].blocks[0].content).parts[1] = Text{"z"};
  EXPECT_NE(copy, request);
  copy.prompt = Tokens{1, 2};
  EXPECT_NE(copy, request);
}

TEST(Values, DefaultsAreOpenaisAndAskForNothing) {
  const Request request;
  EXPECT_EQ(request.sampling.temperature, 1.0);
  EXPECT_EQ(request.sampling.top_p, 1.0);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_FALSE(request.stopping.max_tokens.has_value());
  EXPECT_EQ(request.hints, Hints{});
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kAuto);
  EXPECT_EQ(request.tenant, "default");
}

}  // namespace
}  // namespace kvern::ir

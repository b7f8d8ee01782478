#include "ir/event_grammar.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvern::ir {
namespace {

BlockStart text_block(std::uint32_t index) { return {index, BlockKind::kText, {}, {}}; }
BlockStart call_block(std::uint32_t index) { return {index, BlockKind::kToolCall, "call_1", "f"}; }

/// The first fault of a stream, "unfinished" if it stops before its end, or "".
std::string fault_of(const std::vector<Event>& events) {
  EventGrammar grammar;
  for (const Event& event : events) {
    if (auto fault = grammar.accept(event)) return *fault;
  }
  return grammar.complete() ? "" : "unfinished";
}

TEST(EventGrammar, TakesWholeAnswers) {
  EXPECT_EQ(fault_of({Start{}, End{}}), "");
  EXPECT_EQ(fault_of({Start{}, text_block(0), BlockDelta{0, "a"}, BlockDelta{0, "b"}, BlockStop{0}, call_block(1),
                      BlockStop{1}, End{FinishReason::kToolCalls, {}, {}}}),
            "");
  EXPECT_EQ(fault_of({Start{}, End{FinishReason::kStopString, "END", {}}}), "");
}

TEST(EventGrammar, AFailureMayComeAnywhere) {
  const Failure failure{fail(ErrorCode::kEngine, "x")};
  EXPECT_EQ(fault_of({failure}), "");
  EXPECT_EQ(fault_of({Start{}, failure}), "");
  EXPECT_EQ(fault_of({Start{}, text_block(0), failure}), "");
  EXPECT_EQ(fault_of({Start{}, text_block(0), BlockDelta{0, "a"}, BlockStop{0}, failure}), "");
}

TEST(EventGrammar, NothingFollowsTheEnd) {
  const Failure failure{fail(ErrorCode::kEngine, "x")};
  EXPECT_NE(fault_of({Start{}, End{}, failure}), "");
  EXPECT_NE(fault_of({failure, failure}), "");
  EXPECT_NE(fault_of({Start{}, End{}, Start{}}), "");
}

TEST(EventGrammar, RefusesWhatIsOutOfOrder) {
  EXPECT_NE(fault_of({End{}}), "");
  EXPECT_NE(fault_of({text_block(0)}), "");
  EXPECT_NE(fault_of({Start{}, Start{}}), "");
  EXPECT_NE(fault_of({Start{}, text_block(1)}), "");
  EXPECT_NE(fault_of({Start{}, text_block(0), text_block(1)}), "");
  EXPECT_NE(fault_of({Start{}, BlockDelta{0, "a"}}), "");
  EXPECT_NE(fault_of({Start{}, text_block(0), BlockDelta{1, "a"}}), "");
  EXPECT_NE(fault_of({Start{}, text_block(0), BlockStop{1}}), "");
  EXPECT_NE(fault_of({Start{}, BlockStop{0}}), "");
  EXPECT_NE(fault_of({Start{}, text_block(0), End{}}), "");
  EXPECT_NE(fault_of({Start{}, text_block(0), BlockStop{0}, text_block(0)}), "");
  EXPECT_EQ(fault_of({Start{}, text_block(0)}), "unfinished");
}

TEST(EventGrammar, RefusesWhatContradictsItself) {
  EXPECT_NE(fault_of({Start{}, BlockStart{0, BlockKind::kToolCall, "id", ""}}), "");
  EXPECT_NE(fault_of({Start{}, BlockStart{0, BlockKind::kText, "", "f"}}), "");
  EXPECT_NE(fault_of({Start{}, text_block(0), BlockDelta{0, ""}}), "");
  EXPECT_NE(fault_of({Start{}, End{FinishReason::kStopString, "", {}}}), "");
  EXPECT_NE(fault_of({Start{}, End{FinishReason::kStop, "END", {}}}), "");
  EXPECT_NE(fault_of({Start{Usage{4, 5, 0, 0}}}), "");
  EXPECT_NE(fault_of({Start{}, End{FinishReason::kStop, {}, Usage{4, 4, 1, 2}}}), "");
}

TEST(EventGrammar, AFaultLeavesTheStateAlone) {
  EventGrammar grammar;
  EXPECT_FALSE(grammar.accept(Start{}));
  EXPECT_TRUE(grammar.accept(BlockStop{0}));
  EXPECT_FALSE(grammar.accept(text_block(0)));
  EXPECT_TRUE(grammar.accept(End{}));
  EXPECT_FALSE(grammar.accept(BlockStop{0}));
  EXPECT_FALSE(grammar.complete());
  EXPECT_FALSE(grammar.accept(End{}));
  EXPECT_TRUE(grammar.complete());
}

}  // namespace
}  // namespace kvern::ir

// The output items of one response as they grow: a block of the answer is an item, in the same order. Both encoders
// collect by this, so what is streamed, what `response.completed` repeats and what a whole answer holds are one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/custom_input.h"
#include "api/responses/response_plan.h"
#include "base/json_writer.h"
#include "ir/event.h"

namespace kvern::api {

enum class ItemKind : std::uint8_t { kMessage, kReasoning, kFunctionCall, kCustomCall, kToolSearchCall };
enum class ItemStatus : std::uint8_t { kInProgress, kCompleted, kIncomplete };
const char* to_string(ItemStatus status) noexcept;

/// {"type": "output_text", ...}; `logprobs` are entries as JSON.
void write_text_part(std::string_view text, std::string_view logprobs, json::Writer& writer);

struct OutputItem {
  ItemKind kind = ItemKind::kMessage;
  std::string id;
  std::string call_id;  // calls, like the name below
  ToolName name;
  std::string text;      // of a message, reasoning, arguments, input
  std::string logprobs;  // of a message: entries as JSON
};

/// One response. Used on one loop. Cost per piece: a copy.
class OutputItems {
 public:
  /// `plan` outlives this.
  explicit OutputItems(const ResponsePlan& plan) : plan_(plan) {}

  /// Begins the next item; the one before is closed.
  const OutputItem& open(const ir::BlockStart& block);
  /// What the client sees of a piece, which may be nothing: valid until the next call.
  std::string_view append(const ir::BlockDelta& delta);
  /// What was held back until the block's end, likewise.
  std::string_view finish();
  /// Keeps the item: its JSON, complete, valid until the next call.
  std::string_view close(ItemStatus status);

  const OutputItem& item() const noexcept { return item_; }
  /// Place of the open item, or the one closed last.
  std::uint32_t index() const noexcept { return count_ - 1; }
  /// The open item without its content, as `response.output_item.added` shows it.
  void write_opened(json::Writer& writer) const;
  /// A JSON array of every closed item.
  void write_all(json::Writer& writer) const;

 private:
  void write(ItemStatus status, std::string_view text, json::Writer& writer) const;

  const ResponsePlan& plan_;
  OutputItem item_;
  CustomInput input_;
  std::string piece_;
  std::string closed_;  // items as JSON, with commas between
  std::uint32_t count_ = 0;
};

}  // namespace kvern::api

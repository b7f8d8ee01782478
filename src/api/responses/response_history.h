// What a request continues: stored turns, and stored items it refers to. The decoder first says which it needs; whoever
// has the store brings them, and it decodes again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/limits.h"
#include "base/json_reader.h"
#include "base/result.h"
#include "base/strong_id.h"

namespace kvern::api {

/// As it was stored: an array of items, and a response object.
struct StoredTurn {
  std::string input;
  std::string answer;
};

struct ResponsesHistory {
  std::vector<StoredTurn> turns;       // what `previous_response_id` continues, the oldest first
  std::vector<StoredTurn> referenced;  // responses whose items the input refers to
};

/// Responses to be looked up; empty where the body stands for itself.
struct ResponsesNeeds {
  std::optional<RequestId> previous;
  std::vector<RequestId> references;  // each once
  bool empty() const { return !previous && references.empty(); }
};

/// What was stored stands one or two levels deeper than in the body it came with.
json::ReadLimits stored_read_limits(const Limits& limits);

/// How many responses the items of one request may refer to.
inline constexpr std::size_t kReferencedMax = 64;

/// A history, read. Borrows it. What cannot be read is left out: it was checked when it came.
class HistoryItems {
 public:
  HistoryItems(const ResponsesHistory& history, const Limits& limits);
  /// Items of the conversation, inputs and outputs in order; valid as long as this.
  const std::vector<json::Value>& conversation() const { return conversation_; }
  /// An item of the conversation or of a referenced response.
  std::optional<json::Value> find(const std::string& id) const;

 private:
  void read(const StoredTurn& turn, const json::ReadLimits& limits, bool continued);
  void take(std::string_view text, const json::ReadLimits& limits, bool is_answer, bool continued);

  std::vector<std::unique_ptr<const json::Document>> documents_;
  std::vector<json::Value> conversation_;
  std::unordered_map<std::string, json::Value> by_id_;
};

}  // namespace kvern::api

#include "api/responses/response_history.h"

namespace kvern::api {

json::ReadLimits stored_read_limits(const Limits& limits) {
  return {static_cast<std::uint32_t>(limits[Limit::kJsonDepth]) + 2,
          static_cast<std::uint32_t>(limits[Limit::kJsonValues]),
          static_cast<std::uint32_t>(limits[Limit::kJsonMembers])};
}

HistoryItems::HistoryItems(const ResponsesHistory& history, const Limits& limits) {
  const json::ReadLimits read_limits = stored_read_limits(limits);
  for (const StoredTurn& turn : history.turns) read(turn, read_limits, true);
  for (const StoredTurn& turn : history.referenced) read(turn, read_limits, false);
}

void HistoryItems::read(const StoredTurn& turn, const json::ReadLimits& limits, bool continued) {
  take(turn.input, limits, false, continued);
  take(turn.answer, limits, true, continued);
}

void HistoryItems::take(std::string_view text, const json::ReadLimits& limits, bool is_answer, bool continued) {
  auto document = json::Document::parse(text, limits);
  if (!document) return;
  std::optional<json::Value> items = (*document)->root();
  if (is_answer) items = items->is(json::Kind::kObject) ? items->find("output") : std::nullopt;
  if (!items || !items->is(json::Kind::kArray)) return;
  for (const auto& [key, item] : items->children()) {
    if (continued) conversation_.push_back(item);
    if (!item.is(json::Kind::kObject)) continue;
    const auto id = item.find("id");
    if (id && id->is(json::Kind::kString)) by_id_.emplace(id->string(), item);
  }
  documents_.push_back(*std::move(document));
}

std::optional<json::Value> HistoryItems::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kvern::api

#include "api/hint_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

namespace kvern::api {
namespace {

enum class Header : std::uint8_t {
  kOwnSession,
  kOwnParent,
  kOwnFinal,
  kDynamoSession,
  kDynamoParent,
  kDynamoFinal,
  kClaudeSession,
  kClaudeAgent,
  kClaudeParent,
  kCodexThread,
  kCodexSession,
  kCodexParent,
  kDeepseekSession,
  kDeepseekParent,
  kOpencodeSession,
  kOpencodeParent,
  kPriority,
  kStrictPriority,
  kWorker,
  kWorkerRank,
  kNoEffect,
};
constexpr std::size_t kHeaders = static_cast<std::size_t>(Header::kNoEffect) + 1;

struct Row {
  std::string_view name;  // lower case
  Header header;
};

// The names of Dynamo 1.6, also those without its prefix that it still takes; of Claude Code, Codex (two releases),
// DeepSeek's harness and opencode.
constexpr std::array kRows{
    Row{"session-id", Header::kCodexSession},
    Row{"session_id", Header::kCodexSession},
    Row{"thread-id", Header::kCodexThread},
    Row{"x-claude-code-agent-id", Header::kClaudeAgent},
    Row{"x-claude-code-parent-agent-id", Header::kClaudeParent},
    Row{"x-claude-code-session-id", Header::kClaudeSession},
    Row{"x-codex-parent-thread-id", Header::kCodexParent},
    Row{"x-data-parallel-rank", Header::kWorkerRank},
    Row{"x-deepseek-harness-parent-session-id", Header::kDeepseekParent},
    Row{"x-deepseek-harness-session-id", Header::kDeepseekSession},
    Row{"x-dp-rank", Header::kWorkerRank},
    Row{"x-dynamo-dp-rank", Header::kWorkerRank},
    Row{"x-dynamo-meta-policy-class", Header::kNoEffect},
    Row{"x-dynamo-parent-session-id", Header::kDynamoParent},
    Row{"x-dynamo-prefill-dp-rank", Header::kNoEffect},
    Row{"x-dynamo-prefill-instance-id", Header::kNoEffect},
    Row{"x-dynamo-request-priority", Header::kPriority},
    Row{"x-dynamo-request-strict-priority", Header::kStrictPriority},
    Row{"x-dynamo-session-final", Header::kDynamoFinal},
    Row{"x-dynamo-session-id", Header::kDynamoSession},
    Row{"x-dynamo-worker-instance-id", Header::kWorker},
    Row{"x-kvern-parent-session-id", Header::kOwnParent},
    Row{"x-kvern-priority", Header::kPriority},
    Row{"x-kvern-session-final", Header::kOwnFinal},
    Row{"x-kvern-session-id", Header::kOwnSession},
    Row{"x-parent-session-id", Header::kOpencodeParent},
    Row{"x-prefill-dp-rank", Header::kNoEffect},
    Row{"x-prefill-instance-id", Header::kNoEffect},
    Row{"x-session-id", Header::kOpencodeSession},
    Row{"x-worker-instance-id", Header::kWorker},
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::name));

/// Who says whose turn it is, the first that says anything wins. `agent` is a subagent of the session.
struct Identity {
  Header session;
  Header agent;
  Header parent;
  Header final;
};
constexpr Header kNone = Header::kNoEffect;
constexpr std::array kIdentities{
    Identity{Header::kOwnSession, kNone, Header::kOwnParent, Header::kOwnFinal},
    Identity{Header::kDynamoSession, kNone, Header::kDynamoParent, Header::kDynamoFinal},
    Identity{Header::kClaudeSession, Header::kClaudeAgent, Header::kClaudeParent, kNone},
    Identity{Header::kCodexSession, Header::kCodexThread, Header::kCodexParent, kNone},
    Identity{Header::kDeepseekSession, kNone, Header::kDeepseekParent, kNone},
    Identity{Header::kOpencodeSession, kNone, Header::kOpencodeParent, kNone},
};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string lower(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The values of the known headers of one request, trimmed; of several of one kind the first that is not blank.
class Known {
 public:
  Known(const HeaderList& headers, std::vector<std::string>& left_out) {
    constexpr std::size_t kLongest = 40;
    for (const auto& [name, text] : headers) {
      const std::string_view value = trimmed(text);
      if (value.empty() || name.size() > kLongest) continue;
      const std::string key = lower(name);
      const auto row = std::ranges::lower_bound(kRows, std::string_view(key), {}, &Row::name);
      if (row == kRows.end() || row->name != key) continue;
      if (row->header == Header::kNoEffect) left_out.push_back(key);
      auto& place = at(row->header);
      if (place.value.empty()) place = {row->name, value};
    }
    at(Header::kNoEffect) = {};
  }

  struct Found {
    std::string_view name;
    std::string_view value;
  };
  const Found& operator[](Header header) const { return found_[static_cast<std::size_t>(header)]; }

 private:
  Found& at(Header header) { return found_[static_cast<std::size_t>(header)]; }
  std::array<Found, kHeaders> found_{};
};

std::optional<Error> take(const Known::Found& found, const Limits& limits, std::string& out) {
  if (auto error = limits.check(Limit::kIdBytes, found.value.size(), found.name)) return error;
  out = found.value;
  return std::nullopt;
}

std::optional<Error> read_identity(const Known& known, const Limits& limits, ir::Session& out) {
  for (const Identity& identity : kIdentities) {
    const Known::Found& session = known[identity.session];
    const Known::Found& agent = known[identity.agent];
    if (session.value.empty() && agent.value.empty()) continue;
    ir::Session named;
    if (auto error = take(session.value.empty() ? agent : session, limits, named.id)) return error;
    if (auto error = take(agent, limits, named.agent)) return error;
    if (auto error = take(known[identity.parent], limits, named.parent)) return error;
    const std::string_view final = known[identity.final].value;
    named.final = final == "true" || final == "1";
    out = std::move(named);
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> apply_hint_headers(const HeaderList& headers, const Limits& limits, ir::Request& request,
                                        std::vector<std::string>& left_out) {
  constexpr std::int64_t kPriorityMost = 1'000'000'000;
  const Known known(headers, left_out);
  if (auto error = read_identity(known, limits, request.session)) return error;
  ir::Hints& hints = request.hints;
  if (const auto priority = number<std::int64_t>(known[Header::kPriority].value))
    hints.priority = static_cast<std::int32_t>(std::clamp(*priority, -kPriorityMost, kPriorityMost));
  if (const auto strict = number<std::uint32_t>(known[Header::kStrictPriority].value)) hints.strict_priority = *strict;
  if (const auto& worker = known[Header::kWorker]; !worker.value.empty()) {
    if (auto error = take(worker, limits, hints.worker)) return error;
  }
  // The largest number is Dynamo's word for "any".
  const auto rank = number<std::uint32_t>(known[Header::kWorkerRank].value);
  if (rank && *rank != std::numeric_limits<std::uint32_t>::max()) hints.worker_rank = rank;
  return std::nullopt;
}

}  // namespace kvern::api

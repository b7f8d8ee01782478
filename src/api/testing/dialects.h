// For tests that hold for every dialect: each with the least body that it takes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/chat/chat.h"
#include "api/completions/completions.h"
#include "api/dialect.h"
#include "api/messages/messages.h"
#include "api/responses/responses.h"
#include "base/clock.h"
#include "base/seal.h"

namespace kvern::api::testing {

struct Speaker {
  std::string name;
  std::string least;  // members of the least body
  std::function<std::unique_ptr<const Dialect>(const Limits&)> make;

  std::string body(const std::string& members) const { return "{" + members + "," + least + "}"; }
  /// The least body with more members.
  Result<Call> decode(const std::string& members, const Limits& limits = {}) const {
    return make(limits)->decode(body(members), {RequestId{1}, std::chrono::seconds(1)});
  }
};

inline void PrintTo(const Speaker& speaker, std::ostream* out) { *out << speaker.name; }

inline std::vector<Speaker> speakers() {
  static const ManualClock clock;
  static const Seal seal(Secret(std::string(Seal::kKeyBytes, 'k')));
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  return {
      {"chat", messages, [](const Limits& limits) { return make_chat_dialect(limits); }},
      {"completions", R"("prompt":"hi")", [](const Limits& limits) { return make_completions_dialect(limits); }},
      {"responses", R"("input":"hi")",
       [](const Limits& limits) { return make_responses_dialect(limits, {seal, clock}); }},
      {"messages", R"("max_tokens":8000,)" + messages,
       [](const Limits& limits) { return make_messages_dialect(limits); }},
  };
}

}  // namespace kvern::api::testing

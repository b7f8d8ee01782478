#include "api/unserved_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

#include "api/chat/chat.h"
#include "api/completions/completions.h"
#include "api/messages/messages.h"
#include "api/responses/responses.h"
#include "api/vllm_wire/completion_request.h"

namespace kvern::api {
namespace {

std::optional<Error> decode(Endpoints endpoint, std::string_view field) {
  const Limits limits;
  const std::string prompt = endpoint == kOnChat        ? R"("messages":[{"role":"user","content":"hi"}])"
                             : endpoint == kOnResponses ? R"("input":"hi")"
                             : endpoint == kOnMessages ? R"("max_tokens":9,"messages":[{"role":"user","content":"hi"}])"
                                                       : R"("prompt":"hi")";
  const std::string body = fmt::format("{{{},{}}}", prompt, field);
  const auto fault = [](const auto& result) { return result.ok() ? std::nullopt : std::optional(result.error()); };
  if (endpoint == kOnChat) return fault(make_chat_dialect(limits)->decode(body, {}));
  if (endpoint == kOnResponses) {
    const ManualClock clock;
    const Seal seal(Secret(std::string(Seal::kKeyBytes, 'k')));
    return fault(make_responses_dialect(limits, {seal, clock})->decode(body, {}));
  }
  if (endpoint == kOnMessages) return fault(make_messages_dialect(limits)->decode(body, {}));
  if (endpoint == kOnCompletions) return fault(make_completions_dialect(limits)->decode(body, {}));
  return fault(decode_wire_completion(body, limits));
}

std::vector<std::string> off_values(Off off) {
  switch (off) {
    case Off::kNullOnly: return {"null"};
    case Off::kFalse: return {"null", "false"};
    case Off::kTrue: return {"null", "true"};
    case Off::kZero: return {"null", "0", "0.0"};
    case Off::kOne: return {"null", "1", "1.0"};
    case Off::kEmpty: return {"null", "[]", "{}", "\"\""};
  }
  return {};
}

TEST(UnservedFields, EachIsRefusedByNameWhereItIsNotServedAndTakenWhereItIsOff) {
  for (const auto& row : unserved_fields()) {
    for (const Endpoints endpoint : {kOnChat, kOnCompletions, kOnWire, kOnResponses, kOnMessages}) {
      if ((row.endpoints & endpoint) == 0) continue;
      SCOPED_TRACE(fmt::format("{} on {}", row.name, static_cast<int>(endpoint)));
      for (const auto& value : off_values(row.off)) {
        EXPECT_FALSE(decode(endpoint, fmt::format("\"{}\":{}", row.name, value)).has_value()) << value;
      }
      const std::vector<std::string> ons{row.off == Off::kTrue ? "false" : "true", "2", "[1]", "{\"a\":1}", "\"x\""};
      for (const auto& value : ons) {
        const auto error = decode(endpoint, fmt::format("\"{}\":{}", row.name, value));
        ASSERT_TRUE(error.has_value()) << value;
        EXPECT_EQ(error->param, row.name);
        EXPECT_EQ(error->detail, "unsupported_parameter");
      }
    }
  }
}

TEST(UnservedFields, TheUnknownIsIgnored) {
  for (const Endpoints endpoint : {kOnChat, kOnCompletions, kOnWire, kOnResponses, kOnMessages}) {
    EXPECT_FALSE(decode(endpoint, R"("length_penalties":2,"Guided_json":{},"x":[1])").has_value());
  }
}

}  // namespace
}  // namespace kvern::api

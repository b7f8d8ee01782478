#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/testing/byte_tokenizer.h"
#include "sim/checkers/checker.h"
#include "sim/sim_model.h"

namespace kvern::sim {
namespace {

/// What may come of a request, known when it starts.
struct Expected {
  std::uint32_t prompt_tokens = 0;
  std::optional<ErrorCode> refusal;  // the only possible end, then
  ExpectedAnswer answer;
  std::vector<std::size_t> received;  // bytes of text, of each choice
};

Expected expect(const ir::Request& request, std::uint32_t context) {
  Expected expected;
  const SimTokenizer tokenizer;
  Tokens prompt;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    prompt = tokenizer.encode_text(*text, true);
  } else if (const auto* tokens = std::get_if<Tokens>(&request.prompt)) {
    prompt = *tokens;
  } else {
    auto spans = pipeline::testing::PlainTemplate().render(request);
    if (!spans) {
      expected.refusal = spans.error().code;
      return expected;
    }
    prompt = tokenizer.encode(*spans);
  }
  expected.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  if (prompt.size() >= context) {
    expected.refusal = ErrorCode::kContextLength;
    return expected;
  }
  const std::uint32_t left = context - expected.prompt_tokens;
  const std::uint32_t max_tokens = std::min(request.stopping.max_tokens.value_or(left), left);
  if (request.stopping.min_tokens > max_tokens) {
    expected.refusal = ErrorCode::kInvalidRequest;
    return expected;
  }
  expected.answer = expected_answer(prompt, max_tokens, request.stopping);
  return expected;
}

class ExactAnswer final : public Checker {
 public:
  explicit ExactAnswer(Findings& findings) : Checker("exact_answer", findings) {}

  void on_started(const Call& call) override {
    Expected expected = expect(*call.request, Site::kContextTokens);
    expected.received.resize(call.request->choices);
    expected_.emplace(call.id(), std::move(expected));
  }

  void on_event(const Call& call, std::uint32_t choice, const ir::Event& event) override {
    Expected& expected = expected_.at(call.id());
    std::size_t& received = expected.received.at(choice);
    const auto wrong = [&](const std::string& what) { found(to_string(call.id()) + ": " + what); };
    if (expected.refusal) {
      const auto* failure = std::get_if<ir::Failure>(&event);
      const bool right = failure != nullptr &&
                         (failure->error.code == *expected.refusal || failure->error.code == ErrorCode::kOverloaded);
      if (!right) wrong(fmt::format("it should have been refused with {}", to_string(*expected.refusal)));
      return;
    }
    if (const auto* start = std::get_if<ir::Start>(&event)) {
      if (start->usage.prompt_tokens != expected.prompt_tokens) wrong("another number of prompt tokens");
    } else if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      const std::string_view rest = std::string_view(expected.answer.text).substr(received);
      if (!rest.starts_with(delta->text)) {
        return wrong(fmt::format("text is '{}' where '{}' is right", delta->text, rest.substr(0, delta->text.size())));
      }
      received += delta->text.size();
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      check_end(expected, received, *end, wrong);
    } else if (const auto* failure = std::get_if<ir::Failure>(&event)) {
      if (failure->error.code == ErrorCode::kInvalidRequest || failure->error.code == ErrorCode::kContextLength) {
        wrong("a sound request was refused: " + failure->error.message);
      }
    }
  }

 private:
  template <typename Wrong>
  static void check_end(const Expected& expected, std::size_t received, const ir::End& end, const Wrong& wrong) {
    const ExpectedAnswer& answer = expected.answer;
    if (received != answer.text.size()) {
      wrong(fmt::format("it ended after {} of {} bytes", received, answer.text.size()));
    } else if (end.reason != answer.reason || end.stop_string != answer.stop_string) {
      wrong(fmt::format("it ended with {} '{}' instead of {} '{}'", to_string(end.reason), end.stop_string,
                        to_string(answer.reason), answer.stop_string));
    } else if (end.usage.completion_tokens != answer.completion_tokens) {
      wrong(fmt::format("{} completion tokens were counted, {} made", end.usage.completion_tokens,
                        answer.completion_tokens));
    } else if (end.usage.prompt_tokens != expected.prompt_tokens) {
      wrong("another number of prompt tokens at the end");
    }
  }

  std::map<RequestId, Expected> expected_;
};

}  // namespace

std::unique_ptr<Checker> make_exact_answer(Findings& findings) { return std::make_unique<ExactAnswer>(findings); }

}  // namespace kvern::sim

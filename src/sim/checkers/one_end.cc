#include <map>
#include <vector>

#include "sim/checkers/checker.h"

namespace kvern::sim {
namespace {

/// What a server in trouble may say about a sound request.
bool is_trouble(ErrorCode code) {
  return code == ErrorCode::kOverloaded || code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout ||
         code == ErrorCode::kEngine;
}
/// What is wrong with the request itself, whatever the weather.
bool is_refusal(ErrorCode code) { return code == ErrorCode::kInvalidRequest || code == ErrorCode::kContextLength; }

class OneEnd final : public Checker {
 public:
  explicit OneEnd(Findings& findings) : Checker("one_end", findings) {}

  void on_started(const Call& call) override {
    const State open{.choices = std::vector<bool>(call.request->choices), .running = call.request->choices};
    if (!states_.emplace(call.id(), open).second) found(to_string(call.id()) + ": the id came twice");
  }
  void on_event(const Call& call, std::uint32_t choice, const ir::Event& event) override {
    State& state = states_.at(call.id());
    if (state.gone) return found(to_string(call.id()) + ": an event after its client hung up");
    if (choice >= state.choices.size()) return found(to_string(call.id()) + ": a choice nobody asked for");
    if (state.running == 0 || state.choices[choice]) {
      return found(fmt::format("{}: an event of choice {} after its end", to_string(call.id()), choice));
    }
    if (std::holds_alternative<ir::End>(event)) {
      state.choices[choice] = true;
      --state.running;
    }
    if (const auto* failure = std::get_if<ir::Failure>(&event)) {
      state.running = 0;
      check(call, failure->error);
    }
  }
  void on_gone(const Call& call) override { states_.at(call.id()).gone = true; }
  void on_drained(Site&) override {
    for (const auto& [id, state] : states_) {
      if (state.running > 0 && !state.gone) found(to_string(id) + ": no end came");
    }
  }

 private:
  struct State {
    std::vector<bool> choices;  // true: ended
    std::uint32_t running = 0;  // of them; 0 after a failure of any
    bool gone = false;
  };

  void check(const Call& call, const Error& error) const {
    if (is_refusal(error.code)) return;
    const bool busy = error.code == ErrorCode::kOverloaded;  // a full queue is no fault
    if (is_trouble(error.code) && (!call.calm || busy)) return;
    found(fmt::format("{}: it failed {}with {}: {}", to_string(call.id()), call.calm ? "though all was well " : "",
                      to_string(error.code), error.message));
  }

  std::map<RequestId, State> states_;
};

}  // namespace

std::unique_ptr<Checker> make_one_end(Findings& findings) { return std::make_unique<OneEnd>(findings); }

}  // namespace kvern::sim

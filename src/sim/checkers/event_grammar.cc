#include "ir/event_grammar.h"

#include <map>

#include "sim/checkers/checker.h"

namespace kvern::sim {
namespace {

class Grammar final : public Checker {
 public:
  explicit Grammar(Findings& findings) : Checker("event_grammar", findings) {}

  void on_event(const Call& call, const ir::Event& event) override {
    if (const auto fault = streams_[call.id()].accept(event)) found(to_string(call.id()) + ": " + *fault);
  }

 private:
  std::map<RequestId, ir::EventGrammar> streams_;
};

}  // namespace

std::unique_ptr<Checker> make_event_grammar(Findings& findings) { return std::make_unique<Grammar>(findings); }

}  // namespace kvern::sim

#include "ir/event_grammar.h"

#include <map>
#include <utility>

#include "sim/checkers/checker.h"

namespace kvern::sim {
namespace {

class Grammar final : public Checker {
 public:
  explicit Grammar(Findings& findings) : Checker("event_grammar", findings) {}

  void on_event(const Call& call, std::uint32_t choice, const ir::Event& event) override {
    if (const auto fault = streams_[{call.id(), choice}].accept(event)) found(to_string(call.id()) + ": " + *fault);
  }

 private:
  std::map<std::pair<RequestId, std::uint32_t>, ir::EventGrammar> streams_;
};

}  // namespace

std::unique_ptr<Checker> make_event_grammar(Findings& findings) { return std::make_unique<Grammar>(findings); }

}  // namespace kvern::sim

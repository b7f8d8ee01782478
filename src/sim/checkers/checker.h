// What must hold in every simulated run. A checker watches calls from outside, and looks at the parts when they rest;
// it changes nothing. One file each; a test plants a bug in production code for each and wants it found (canaries).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/call.h"
#include "sim/site.h"
#include "sim/world.h"

namespace kvern::sim {

struct Finding {
  std::string checker;
  std::string what;
  TimePoint when;
};

/// Takes what checkers find and stops the world at the first.
class Findings {
 public:
  explicit Findings(World& world) : world_(world) {}
  void add(std::string_view checker, std::string what);
  const std::vector<Finding>& all() const { return all_; }

 private:
  World& world_;
  std::vector<Finding> all_;
};

class Checker : public CallObserver {
 public:
  Checker(std::string_view name, Findings& findings) : name_(name), findings_(findings) {}
  void on_started(const Call&) override {}
  void on_event(const Call&, std::uint32_t, const ir::Event&) override {}
  void on_gone(const Call&) override {}
  /// A worker has nothing to do: no request of anybody is in it.
  virtual void on_idle(const SimWorker&) {}
  /// All faults are over and everything had time to end. May empty caches.
  virtual void on_drained(Site&) {}

 protected:
  void found(std::string what) const { findings_.add(name_, std::move(what)); }

 private:
  const std::string name_;
  Findings& findings_;
};

/// Every request that is not hung up gets exactly one End for each choice or one Failure for all, within bounded time;
/// nothing follows that or a hang-up; failures have causes a client may be told of, and none comes when all is well.
std::unique_ptr<Checker> make_one_end(Findings& findings);
/// Every stream keeps the grammar of ir/event.h.
std::unique_ptr<Checker> make_event_grammar(Findings& findings);
/// An idle worker uses no cell but those of its cache, a drained site holds no stream, request or receiver, and an
/// emptied cache leaves nothing.
std::unique_ptr<Checker> make_no_leaks(Findings& findings);
/// What a client has of an answer is the beginning of the only right one, and all of it after an End; usage is exact.
std::unique_ptr<Checker> make_exact_answer(Findings& findings);
/// Who followed an idle worker's KV events from the first knows exactly the blocks in its cache, with parents and
/// tokens.
std::unique_ptr<Checker> make_true_events(Findings& findings);

}  // namespace kvern::sim

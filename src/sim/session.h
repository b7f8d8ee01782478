// A simulated client: one conversation on one loop. It asks, reads, thinks, asks again; it may try again after a
// failure, and hangs up at any moment while that is allowed: before the request was prepared, in the queue, in prefill,
// between two tokens, or from inside the event it is being told. At the end, when all is well, it asks once more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sim/call.h"
#include "sim/site.h"
#include "sim/tally.h"
#include "sim/workload.h"
#include "sim/world.h"

namespace kvern::sim {

struct SessionPlan {
  TimePoint heal;  // no fault and no hang-up after this
  TimePoint calm;  // what was broken then has been noticed and mended
  Duration think_mean;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  /// All arguments outlive it, and `world` is cleared before they go.
  Session(World& world, Site& site, CallObserver& observer, Tally& tally, const SessionPlan& plan, std::string name);

  /// Call once, after make_shared.
  void begin();
  bool done() const { return done_; }

 private:
  class Receiver;
  enum class HangUp : std::uint8_t { kNever, kAtOnce, kInTime, kInText };

  void ask_after(Duration delay);
  void ask(ir::Request request);
  void plan_hang_up();
  void hang_up();
  void take(const std::shared_ptr<Receiver>& from, std::uint32_t choice, const std::vector<ir::Event>& events);
  void turn_over(bool answered);
  void over();
  std::string say(const ir::Event& event) const;

  World& world_;
  Site::Loop& loop_;
  const std::shared_ptr<const pipeline::Model> model_;
  CallObserver& observer_;
  Tally& tally_;
  const SessionPlan plan_;
  const std::string name_;
  Rng rng_;
  Conversation conversation_;
  std::uint32_t turns_left_;
  std::uint32_t tries_left_ = 0;
  std::shared_ptr<Receiver> current_;  // the request under way
  HangUp hang_up_ = HangUp::kNever;
  std::uint32_t deltas_left_ = 0;  // until a kInText
  bool done_ = false;
};

}  // namespace kvern::sim

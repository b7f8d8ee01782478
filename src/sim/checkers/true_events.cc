#include <map>

#include "sim/checkers/checker.h"

namespace kvern::sim {
namespace {

using Blocks = std::map<kv::EngineHash, kv::KvReplica::Block>;

Blocks blocks_of(const kv::KvReplica& replica) {
  Blocks out;
  replica.for_each([&](const kv::EngineHash& hash, const kv::KvReplica::Block& block) { out.emplace(hash, block); });
  return out;
}

class TrueEvents final : public Checker {
 public:
  explicit TrueEvents(Findings& findings) : Checker("true_events", findings) {}

  void on_idle(const SimWorker& worker) override {
    if (worker.events_contradict()) return found(worker.name() + ": a KV event contradicts those before it");
    kv::KvReplica truth;
    for (const auto& event : worker.scheduler()->take_kv_snapshot()) truth.apply(event);
    if (blocks_of(truth) != blocks_of(*worker.follower())) {
      found(worker.name() + ": KV events tell of other blocks than are cached");
    }
  }
};

}  // namespace

std::unique_ptr<Checker> make_true_events(Findings& findings) { return std::make_unique<TrueEvents>(findings); }

}  // namespace kvern::sim

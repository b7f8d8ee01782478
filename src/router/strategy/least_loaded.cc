// The worker with the fewest requests; of equals the one with the least prompt to compute, then the first.
#include <tuple>

#include "router/strategy/strategies.h"

namespace kvern::router {
namespace {

class LeastLoaded final : public Strategy {
 public:
  std::optional<std::size_t> place(const PlacementRequest&, std::span<const WorkerView> workers) override {
    std::optional<std::size_t> best;
    const auto load = [&](std::size_t place) {
      return std::tuple(workers[place].requests, workers[place].prefill_tokens, place);
    };
    for (std::size_t place = 0; place < workers.size(); ++place) {
      if (workers[place].usable && (!best || load(place) < load(*best))) best = place;
    }
    return best;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_least_loaded() { return std::make_unique<LeastLoaded>(); }

}  // namespace kvern::router

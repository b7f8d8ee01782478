// Each in turn; one that is not usable is passed over and loses its turn.
#include "router/strategy/strategies.h"

namespace kvern::router {
namespace {

class RoundRobin final : public Strategy {
 public:
  std::optional<std::size_t> place(const PlacementRequest&, std::span<const WorkerView> workers) override {
    for (std::size_t step = 0; step < workers.size(); ++step) {
      const std::size_t place = (next_ + step) % workers.size();
      if (!workers[place].usable) continue;
      next_ = place + 1;
      return place;
    }
    return std::nullopt;
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_round_robin() { return std::make_unique<RoundRobin>(); }

}  // namespace kvern::router

#include "sim/faults.h"

#include "sim/draw.h"

namespace kvern::sim {
namespace {

using std::chrono::milliseconds;

constexpr Duration kMeanMin = milliseconds(200);
constexpr Duration kMeanMax = milliseconds(5000);
constexpr Duration kDownMax = milliseconds(8000);
// Above and below the timeouts of adapters.
constexpr Duration kStallMax = milliseconds(15'000);
constexpr Duration kRefuseMax = milliseconds(3000);

}  // namespace

Faults::Faults(World& world, const std::vector<std::shared_ptr<SimEngine>>& engines, Tally& tally)
    : world_(world), engines_(engines), tally_(tally), rng_(world.fork_rng()) {
  const double share = rng_.uniform();
  for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
    if (chance(rng_, share)) kinds_.push_back(static_cast<Kind>(kind));
  }
  mean_ = draw(rng_, kMeanMin, kMeanMax);
}

void Faults::begin(TimePoint heal) {
  heal_ = heal;
  world_.at(heal, [this] {
    world_.note("faults", "ALL HEALS");
    for (const auto& engine : engines_) engine->heal();
  });
  if (!kinds_.empty()) next();
}

void Faults::next() {
  world_.after(draw_wait(rng_, mean_), [this] {
    if (world_.now() >= heal_) return;
    const auto& engine = engines_[rng_.below(engines_.size())];
    strike(*engine, kinds_[rng_.below(kinds_.size())]);
    next();
  });
}

void Faults::strike(SimEngine& engine, Kind kind) {
  switch (kind) {
    case Kind::kCrash: return crash(engine, true);
    case Kind::kVanish: return crash(engine, false);
    case Kind::kCut:
      if (engine.cut_one(true)) tally_.add(Happening::kCut);
      return;
    case Kind::kFade:
      if (engine.cut_one(false)) tally_.add(Happening::kFading);
      return;
    case Kind::kStall: {
      const Duration time = draw(rng_, Duration(0), kStallMax);
      world_.note(engine.name(), "STALLS for {} ms", time / milliseconds(1));
      engine.worker().stall(time);
      tally_.add(Happening::kStall);
      return;
    }
    case Kind::kRefuse:
      world_.note(engine.name(), "REFUSES");
      engine.refuse(draw(rng_, Duration(0), kRefuseMax));
      tally_.add(Happening::kRefusal);
      return;
    case Kind::kFailDecode:
      world_.note(engine.name(), "DECODES FAIL");
      // Once: each of the batch is tried alone. More often: those tried first fail.
      engine.worker().fail_decodes(draw(rng_, 1, 3));
      tally_.add(Happening::kFailedDecode);
      return;
  }
}

void Faults::crash(SimEngine& engine, bool loud) {
  if (!engine.worker().up()) return;
  engine.crash(loud);
  tally_.add(loud ? Happening::kCrash : Happening::kVanishing);
  world_.after(draw(rng_, Duration(0), kDownMax), [&engine] { engine.restart(); });
}

}  // namespace kvern::sim

#include "sim/faults.h"

#include "sim/draw.h"

namespace kvern::sim {
namespace {

using std::chrono::milliseconds;

constexpr Duration kMeanMin = milliseconds(200);
constexpr Duration kMeanMax = milliseconds(5000);
constexpr Duration kDownMax = milliseconds(8000);
// Above and below the timeouts of adapters.
constexpr Duration kStallMax = milliseconds(40'000);
constexpr Duration kRefuseMax = milliseconds(3000);

}  // namespace

Faults::Faults(World& world, Site& site, Tally& tally)
    : world_(world), site_(site), tally_(tally), rng_(world.fork_rng()) {
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
    for (std::size_t i = 0; i < site_.engines().size(); ++i) {
      site_.engines()[i]->heal();
      site_.set_listed(i, true);
    }
  });
  if (!kinds_.empty()) next();
}

void Faults::next() {
  world_.after(draw_wait(rng_, mean_), [this] {
    if (world_.now() >= heal_) return;
    const std::size_t worker = rng_.below(site_.engines().size());
    strike(worker, kinds_[rng_.below(kinds_.size())]);
    next();
  });
}

void Faults::strike(std::size_t worker, Kind kind) {
  SimEngine& engine = *site_.engines()[worker];
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
    case Kind::kTakeOut:
      world_.note(engine.name(), "is TAKEN OUT of the fleet");
      site_.set_listed(worker, false);
      tally_.add(Happening::kTakenOut);
      world_.after(draw(rng_, Duration(0), kDownMax), [this, worker] { site_.set_listed(worker, true); });
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

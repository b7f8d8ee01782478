#include "sim/checkers/checker.h"

#include <utility>

namespace kvern::sim {

void Findings::add(std::string_view checker, std::string what) {
  world_.note("FOUND", "{}: {}", checker, what);
  all_.push_back({std::string(checker), std::move(what), world_.now()});
  world_.stop();
}

}  // namespace kvern::sim

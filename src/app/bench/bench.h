// `kvern bench`: measures a part on this machine and prints figures, as a table or one JSON document.
#pragma once

#include <cstdint>
#include <string>

#include "net/bench/load.h"

namespace kvern::app {

struct BenchOptions {
  std::string part;
  std::string model;         // engine
  int rounds = 3;            // http: each case so often, medians are shown
  std::uint16_t origin = 0;  // relay
  net::LoadOptions load;     // load, but for its body
  std::string body_file;     // load
  bool json = false;
};

/// Returns the exit status.
int run_bench(const BenchOptions& options);

}  // namespace kvern::app

// `kvern bench`: measures a part on this machine and prints figures, as a table or one JSON document.
#pragma once

#include <string>

namespace kvern::app {

struct BenchOptions {
  std::string part;
  std::string model;
  bool json = false;
};

/// Returns the exit status.
int run_bench(const BenchOptions& options);

}  // namespace kvern::app

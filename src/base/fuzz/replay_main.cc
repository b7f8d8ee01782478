// Runs a fuzz target without libFuzzer: every seed file given, then N mutations of them from a fixed seed. So each
// compiler runs the targets; the coverage-guided runs are the asan preset's.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutate(std::string input, kvern::Rng& rng) {
  const std::uint64_t changes = 1 + rng.below(4);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::size_t at = rng.below(input.size() + 1);
    switch (rng.below(4)) {
      case 0: input.insert(at, 1, static_cast<char>(rng.below(256))); break;
      case 1: input.erase(at, 1 + rng.below(8)); break;
      case 2:
        if (at < input.size()) input[at] = static_cast<char>(rng.below(256));
        break;
      default: input.insert(at, input.substr(at / 2, rng.below(32)));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const long mutations = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1000;
  std::vector<std::string> seeds{""};
  for (int i = 2; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  for (const auto& seed : seeds) run(seed);
  kvern::Rng rng(1);
  for (long i = 0; i < mutations; ++i) run(mutate(seeds[rng.below(seeds.size())], rng));
  std::printf("%zu seeds, %ld mutations, no fault\n", seeds.size(), mutations);
  return 0;
}

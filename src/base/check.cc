#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvern {

void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "kvern: internal error: %s is false at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace kvern

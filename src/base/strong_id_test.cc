#include "base/strong_id.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace kvern {
namespace {

TEST(RequestId, FormatsAsSixteenDigits) {
  EXPECT_EQ(to_string(RequestId{0}), "req_0000000000000000");
  EXPECT_EQ(to_string(RequestId{0xDEADBEEF01ULL}), "req_000000deadbeef01");
}

TEST(Rng, SameSeedSameStream) {
  Rng a(7);
  Rng b(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(a.below(10), 10U);
    const double u = a.uniform();
    EXPECT_GE(u, 0.0);
    EXPECT_LT(u, 1.0);
  }
}

}  // namespace
}  // namespace kvern

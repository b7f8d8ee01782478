#include "api/completions/completions.h"

#include <gtest/gtest.h>

#include "api/testing/describe.h"
#include "base/testing/source_path.h"

namespace kvern::api {
namespace {

TEST(Completions, Goldens) {
  testing::check_goldens(*make_completions_dialect(Limits()), source_path("api/completions/golden"));
}

TEST(Completions, AMillionTokenIdsFit) {
  std::string body = R"({"prompt":[0)";
  for (int i = 1; i < 1'000'000; ++i) body += "," + std::to_string(i % 50'000);
  const auto call = make_completions_dialect(Limits())->decode(body + "]}", {});
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(std::get<Tokens>(call->request.prompt).size(), 1'000'000U);
}

}  // namespace
}  // namespace kvern::api

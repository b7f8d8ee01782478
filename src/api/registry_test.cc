#include "api/registry.h"

#include <gtest/gtest.h>

#include <set>

namespace kvern::api {
namespace {

TEST(Registry, OnlyLiveAndReadyAreOpen) {
  std::set<std::string> routes;
  for (const Endpoint& endpoint : endpoints()) {
    EXPECT_TRUE(routes.insert(std::string(endpoint.method) + " " + std::string(endpoint.path)).second);
    const bool open = endpoint.path == "/live" || endpoint.path == "/ready";
    EXPECT_EQ(endpoint.guard == Guard::kOpen, open) << endpoint.path;
    EXPECT_EQ(endpoint.has_body, endpoint.method == "POST") << endpoint.path;
    const auto route = find_route(endpoint.method, endpoint.path);
    ASSERT_TRUE(route.ok());
    if (!endpoint.path.ends_with("*")) {
      EXPECT_EQ(route->endpoint, &endpoint);
    }
  }
}

TEST(Registry, ModelNamesKeepTheirSlashes) {
  const auto route = find_route("GET", "/v1/models/org/model");
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->endpoint->service, Service::kModel);
  EXPECT_EQ(route->rest, "org/model");
  EXPECT_FALSE(find_route("GET", "/v1/models/").ok());
}

TEST(Registry, HeadIsServedWhereGetIs) { EXPECT_TRUE(find_route("HEAD", "/v1/models").ok()); }

TEST(Registry, UnknownPathsListTheEndpoints) {
  const auto route = find_route("POST", "/v1/chat/completion");
  ASSERT_FALSE(route.ok());
  EXPECT_EQ(route.error().code, ErrorCode::kNotFound);
  EXPECT_NE(route.error().message.find("POST /v1/chat/completions"), std::string::npos);
  EXPECT_EQ(route.error().message.find("completion,"), std::string::npos) << "the path is not echoed";
}

TEST(Registry, WrongMethodsSayWhichAreRight) {
  const auto route = find_route("GET", "/v1/chat/completions");
  ASSERT_FALSE(route.ok());
  EXPECT_EQ(route.error().code, ErrorCode::kMethodNotAllowed);
  EXPECT_EQ(allowed_methods("/v1/chat/completions"), "POST");
  EXPECT_EQ(allowed_methods("/v1/models"), "GET, HEAD");
  EXPECT_EQ(allowed_methods("/nowhere"), "");
}

}  // namespace
}  // namespace kvern::api

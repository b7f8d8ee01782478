#include "api/openapi/openapi.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "api/registry.h"

namespace kvern::api {
namespace {

/// Every "$ref" in a document.
void collect(const boost::json::value& value, std::set<std::string>& out) {
  if (const auto* object = value.if_object()) {
    for (const auto& [key, child] : *object) {
      if (key == "$ref") out.insert(boost::json::value_to<std::string>(child));
      collect(child, out);
    }
  } else if (const auto* array = value.if_array()) {
    for (const auto& child : *array) collect(child, out);
  }
}

TEST(OpenApi, HasEveryRouteAndNoOther) {
  const auto page = boost::json::parse(render_openapi("1.2.3"));
  EXPECT_EQ(page.at("info").at("version"), "1.2.3");
  std::size_t operations = 0;
  for (const auto& [path, methods] : page.at("paths").as_object()) operations += methods.as_object().size();
  EXPECT_EQ(operations, endpoints().size());
  EXPECT_TRUE(page.at("paths").at("/v1/models/{name}").at("get").as_object().contains("parameters"));
  EXPECT_EQ(page.at("paths").at("/v1/responses/{id}").at("get").at("parameters").as_array().size(), 3U);
  EXPECT_EQ(page.at("paths").at("/v1/responses/{id}").at("delete").at("parameters").as_array().size(), 1U);
  for (const Endpoint& endpoint : endpoints()) {
    if (!endpoint.has_body || endpoint.service == Service::kCancel) continue;  // a cancel has nothing to say
    const auto& post = page.at("paths").at(endpoint.path).at("post");
    EXPECT_TRUE(post.as_object().contains("requestBody")) << endpoint.path;
  }
}

TEST(OpenApi, SchemasThatAreNamedAreThereAndAllAreUsed) {
  const auto page = boost::json::parse(render_openapi("1"));
  std::set<std::string> named;
  collect(page, named);
  std::set<std::string> there;
  for (const auto& [name, schema] : page.at("components").at("schemas").as_object())
    there.insert("#/components/schemas/" + std::string(name));
  EXPECT_EQ(named, there);
}

TEST(OpenApi, OnlyTheProbesNeedNoKey) {
  const auto page = boost::json::parse(render_openapi("1"));
  for (const Endpoint& endpoint : endpoints()) {
    if (endpoint.method != "GET" || endpoint.path.ends_with("*")) continue;
    const auto& get = page.at("paths").at(endpoint.path).at("get");
    EXPECT_EQ(get.as_object().contains("security"), endpoint.guard == Guard::kOpen) << endpoint.path;
  }
}

}  // namespace
}  // namespace kvern::api

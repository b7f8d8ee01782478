#include "api/models/models.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <vector>

namespace kvern::api {
namespace {

const std::vector<ModelEntry> kModels{{"org/tiny \"x\"", 1'700'000'000, 2048}, {"b", 5, 0}};

TEST(Models, ListHasOpenaisShape) {
  EXPECT_EQ(
      render_model_list(kModels),
      R"({"object":"list","data":[{"id":"org/tiny \"x\"","object":"model","created":1700000000,"owned_by":"kvern",)"
      R"("max_model_len":2048},{"id":"b","object":"model","created":5,"owned_by":"kvern"}]})");
  EXPECT_EQ(render_model_list({}), R"({"object":"list","data":[]})");
}

TEST(Models, AnthropicsForm) {
  EXPECT_EQ(render_messages_model_list(kModels),
            R"({"data":[{"type":"model","id":"org/tiny \"x\"","display_name":"org/tiny \"x\"",)"
            R"("created_at":"2023-11-14T22:13:20Z","lifecycle":"active","max_input_tokens":2048,"max_tokens":2048},)"
            R"({"type":"model","id":"b","display_name":"b","created_at":"1970-01-01T00:00:05Z","lifecycle":"active"}],)"
            R"("has_more":false,"first_id":"org/tiny \"x\"","last_id":"b"})");
  EXPECT_EQ(render_messages_model_list({}), R"({"data":[],"has_more":false,"first_id":null,"last_id":null})");
  EXPECT_TRUE(render_messages_model(kModels, "b").ok());
  EXPECT_EQ(render_messages_model(kModels, "c").error().detail, "model_not_found");
}

TEST(Models, OneByItsName) {
  EXPECT_EQ(*render_model(kModels, "b"), R"({"id":"b","object":"model","created":5,"owned_by":"kvern"})");
  const auto unknown = render_model(kModels, "claude-x");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.error().detail, "model_not_found");
  EXPECT_NE(unknown.error().message.find("aliases: [\"claude-x\"]"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("Served: org/tiny"), std::string::npos);
}

TEST(Models, AHugeNameDoesNotComeBackWhole) {
  EXPECT_LT(unknown_model(kModels, std::string(1'000'000, 'x')).message.size(), 500U);
}

}  // namespace
}  // namespace kvern::api

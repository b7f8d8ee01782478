#include "api/openai_error.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace kvern::api {
namespace {

std::string header(const Reply& reply, std::string_view name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(OpenaiError, EveryCodeHasAStatusAndAnEnvelope) {
  const std::pair<ErrorCode, int> wanted[] = {
      {ErrorCode::kInvalidRequest, 400},   {ErrorCode::kContextLength, 400}, {ErrorCode::kNotFound, 404},
      {ErrorCode::kMethodNotAllowed, 405}, {ErrorCode::kTooLarge, 413},      {ErrorCode::kUnsupportedMedia, 415},
      {ErrorCode::kForbidden, 403},        {ErrorCode::kMisdirected, 421},   {ErrorCode::kUnauthorized, 401},
      {ErrorCode::kOverloaded, 429},       {ErrorCode::kUnavailable, 503},   {ErrorCode::kTimeout, 504},
      {ErrorCode::kCancelled, 499},        {ErrorCode::kEngine, 500},        {ErrorCode::kInternal, 500}};
  for (const auto& [code, status] : wanted) {
    const Reply reply = openai_error(fail(code, "what \"happened\""));
    EXPECT_EQ(reply.status, status) << to_string(code);
    EXPECT_EQ(header(reply, "content-type"), "application/json");
    const auto error = boost::json::parse(reply.body).at("error").as_object();
    EXPECT_EQ(error.size(), 4U);
    EXPECT_TRUE(error.at("param").is_null());
    EXPECT_TRUE(error.at("type").is_string());
    EXPECT_EQ(error.at("message") == "what \"happened\"", code != ErrorCode::kInternal) << to_string(code);
  }
}

TEST(OpenaiError, CodesThatClientsKnow) {
  EXPECT_NE(openai_error(fail(ErrorCode::kContextLength, "x")).body.find("context_length_exceeded"), std::string::npos);
  Error error = fail(ErrorCode::kNotFound, "x");
  error.detail = "model_not_found";
  EXPECT_NE(openai_error(error).body.find("\"code\":\"model_not_found\""), std::string::npos);
}

TEST(OpenaiError, RetriesAreTold) {
  Error error = fail(ErrorCode::kOverloaded, "x");
  EXPECT_EQ(header(openai_error(error), "retry-after"), "1");
  error.retry_after = std::chrono::seconds(7);
  EXPECT_EQ(header(openai_error(error), "retry-after"), "7");
  EXPECT_EQ(header(openai_error(fail(ErrorCode::kUnavailable, "x")), "retry-after"), "1");
  EXPECT_EQ(header(openai_error(fail(ErrorCode::kInvalidRequest, "x")), "retry-after"), "");
  EXPECT_EQ(header(openai_error(fail(ErrorCode::kUnauthorized, "x")), "www-authenticate"), "Bearer");
}

TEST(OpenaiError, ASlowBodyIsTheClients) {
  Error error = fail(ErrorCode::kTimeout, "x");
  error.detail = "request_timeout";
  EXPECT_EQ(openai_error(error).status, 408);
}

}  // namespace
}  // namespace kvern::api

#include "app/guard.h"

#include <gtest/gtest.h>

namespace kvern::app {
namespace {

net::RequestHead head(net::Headers headers, bool has_body = false) {
  net::RequestHead made;
  made.method = "POST";
  made.headers = std::move(headers);
  made.has_body = has_body;
  return made;
}

std::optional<ErrorCode> verdict(const net::RequestHead& request, const GuardOptions& options = {}) {
  const auto error = check_guards(request, options);
  return error ? std::optional(error->code) : std::nullopt;
}

TEST(Guard, LoopbackNames) {
  for (const char* name : {"localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.255.0.9", "[::1]"}) {
    EXPECT_TRUE(is_loopback_name(name)) << name;
  }
  for (const char* name : {"", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0", "127.0.0.256",
                           "127.0.0.1.", "128.0.0.1", "notlocalhost", ".localhost", "127.0.0.1a", "[::2]"}) {
    EXPECT_FALSE(is_loopback_name(name)) << name;
  }
}

TEST(Guard, HostNameLeavesThePortOff) {
  EXPECT_EQ(host_name("localhost:8080"), "localhost");
  EXPECT_EQ(host_name("[::1]:8080"), "[::1]");
  EXPECT_EQ(host_name("127.0.0.1"), "127.0.0.1");
}

TEST(Guard, HostMustNameThisServer) {
  EXPECT_EQ(verdict(head({{"Host", "localhost:1"}})), std::nullopt);
  EXPECT_EQ(verdict(head({{"Host", "attacker.example"}})), ErrorCode::kMisdirected);
  EXPECT_EQ(verdict(head({{"Host", "kv.example:80"}}), {true, {"kv.example"}, {}}), std::nullopt);
  EXPECT_EQ(verdict(head({{"Host", "kv.example"}}), {false, {}, {}}), std::nullopt);
}

TEST(Guard, OriginsAreRefusedUnlessAllowed) {
  EXPECT_EQ(verdict(head({{"Origin", "http://attacker.example"}})), ErrorCode::kForbidden);
  EXPECT_EQ(verdict(head({{"Origin", "null"}})), ErrorCode::kForbidden);
  EXPECT_EQ(verdict(head({{"Origin", "http://a.example"}}), {true, {}, {"http://a.example"}}), std::nullopt);
}

TEST(Guard, WebSocketIsRefused) {
  for (const char* upgrade : {"websocket", "WebSocket", "h2c, websocket", "h2c ,websocket ,x"}) {
    EXPECT_EQ(verdict(head({{"Upgrade", upgrade}})), ErrorCode::kUpgradeRefused) << upgrade;
  }
  for (const char* upgrade : {"h2c", "", ",", "websockets", "web socket"}) {
    EXPECT_EQ(verdict(head({{"Upgrade", upgrade}})), std::nullopt) << upgrade;
  }
}

TEST(Guard, BodiesAreJson) {
  EXPECT_EQ(verdict(head({{"Content-Type", "application/json"}}, true)), std::nullopt);
  EXPECT_EQ(verdict(head({{"content-type", "Application/JSON ; charset=utf-8"}}, true)), std::nullopt);
  EXPECT_EQ(verdict(head({{"content-type", "text/plain"}}, true)), ErrorCode::kUnsupportedMedia);
  EXPECT_EQ(verdict(head({{"content-type", "application/jsonp"}}, true)), ErrorCode::kUnsupportedMedia);
  EXPECT_EQ(verdict(head({}, true)), ErrorCode::kUnsupportedMedia);
  EXPECT_EQ(verdict(head({{"content-type", "application/json"}, {"content-encoding", "gzip"}}, true)),
            ErrorCode::kUnsupportedMedia);
  EXPECT_EQ(verdict(head({{"content-type", "text/plain"}}, false)), std::nullopt) << "an empty body needs none";
}

}  // namespace
}  // namespace kvern::app

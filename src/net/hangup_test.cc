// A client that hangs up is noticed at every stage. The promise is 100 ms; the tests allow five times as much.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "net/testing/raw_client.h"
#include "net/testing/test_server.h"

namespace kvern::net {
namespace {

using std::chrono::milliseconds;
using testing::RawClient;
using testing::TestServer;

constexpr milliseconds kSoon{500};
constexpr std::string_view kHold = "GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view kEcho = "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Starts an event stream and writes until the client's and our own buffers are full.
void stream_until_blocked(TestServer& server, const std::shared_ptr<testing::Held>& held) {
  server.on_loop(held, [](Exchange& exchange) { exchange.start(200, {}); });
  for (int i = 0; i < 20; ++i) {
    server.on_loop(held, [](Exchange& exchange) { exchange.write(std::string(32U << 10U, 'x')); });
  }
}

TEST(Hangup, IsNoticedWhileTheRequestWaits) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  const auto held = server.handler().wait_held(1);
  client.close();
  EXPECT_TRUE(server.handler().wait_gone(1, kSoon));
  server.on_loop(held, [](Exchange& exchange) {
    EXPECT_TRUE(exchange.gone());
    exchange.start(200, {});
    exchange.write("nobody hears this");
    exchange.finish();
    exchange.respond({});
    exchange.abort();
  });
  EXPECT_TRUE(server.wait_open(0));
  EXPECT_EQ(server.server().stats().exchanges, 0U);
}

TEST(Hangup, IsNoticedWhileStreaming) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  const auto held = server.handler().wait_held(1);
  server.on_loop(held, [](Exchange& exchange) {
    exchange.start(200, {});
    exchange.write("one");
  });
  client.read_until("one");
  client.close();
  EXPECT_TRUE(server.handler().wait_gone(1, kSoon));
}

TEST(Hangup, IsNoticedWhenTheClientStoppedReading) {
  TestServer server;
  RawClient client(server.port(), 4096);
  client.send(kHold);
  const auto held = server.handler().wait_held(1);
  stream_until_blocked(server, held);
  EXPECT_EQ(server.handler().gone(), 0U);
  client.close();
  EXPECT_TRUE(server.handler().wait_gone(1, kSoon));
}

TEST(Hangup, IsNoticedBehindPipelinedRequests) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  server.handler().wait_held(1);
  std::string many;
  while (many.size() < (48U << 10U)) many += kEcho;
  ASSERT_EQ(client.send_some(many), many.size());
  client.close();
  EXPECT_TRUE(server.handler().wait_gone(1, kSoon));
  EXPECT_EQ(server.handler().served(), 1U) << "what was pipelined behind it is not served";
}

// The end of a stream behind a full window never arrives, so the server must not let the window fill up.
TEST(Hangup, IsNoticedBehindMoreThanTheBuffersHold) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  server.handler().wait_held(1);
  std::string many;
  while (many.size() < (8U << 20U)) many += kEcho;
  client.send_some(many);
  EXPECT_EQ(server.handler().gone(), 0U);
  client.close();
  EXPECT_TRUE(server.handler().wait_gone(1, kSoon));
  EXPECT_EQ(server.handler().served(), 1U);
}

TEST(Hangup, TooMuchPipelinedEndsTheConnectionAfterTheAnswer) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  const auto held = server.handler().wait_held(1);
  std::string many;
  while (many.size() < (4U << 20U)) many += kEcho;
  ASSERT_TRUE(client.send(many));
  server.on_loop(held, [](Exchange& exchange) { exchange.respond({200, {}, "answer"}); });
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.body, "answer");
  EXPECT_NE(answer.head.find("connection: close"), std::string::npos);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(client.closed());
}

TEST(Hangup, AHalfCloseCountsAsOne) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  server.handler().wait_held(1);
  client.half_close();
  EXPECT_TRUE(server.handler().wait_gone(1, kSoon));
}

TEST(Hangup, AQuickAnswerReachesAClientThatHalfClosed) {
  TestServer server;
  RawClient client(server.port());
  client.send(kEcho);
  client.half_close();
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
}

TEST(Hangup, InTheMiddleOfABodyFreesTheConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /hold HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
  ASSERT_TRUE(server.wait_open(1));
  client.close();
  EXPECT_TRUE(server.wait_open(0, kSoon));
  EXPECT_EQ(server.handler().served(), 0U);
}

TEST(Hangup, ACallbackGivenTooLateStillComes) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHold);
  const auto held = server.handler().wait_held(1);
  client.close();
  ASSERT_TRUE(server.handler().wait_gone(1, kSoon));
  std::atomic<bool> told{false};
  server.on_loop(held, [&](Exchange& exchange) { exchange.on_gone([&] { told = true; }); });
  EXPECT_TRUE(server.wait_until([&] { return told.load(); }));
}

TEST(Hangup, OfManyAtRandomMomentsLeavesNothing) {
  TestServer server({}, 2);
  for (int round = 0; round < 200; ++round) {
    RawClient client(server.port());
    const std::string request = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n0123456789";
    client.send(std::string_view(request).substr(0, static_cast<std::size_t>(round) % (request.size() + 1)));
    if (round % 3 == 0) client.read_answer(false, milliseconds(round % 5));
  }
  EXPECT_TRUE(server.wait_open(0));
  EXPECT_EQ(server.server().stats().exchanges, 0U);
}

}  // namespace
}  // namespace kvern::net

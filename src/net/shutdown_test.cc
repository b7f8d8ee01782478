// Drain, stop, and destruction in every order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/testing/raw_client.h"
#include "net/testing/test_server.h"

namespace kvern::net {
namespace {

using ::testing::HasSubstr;
using testing::RawClient;
using testing::SteeredHandler;
using testing::TestServer;

constexpr std::string_view kHold = "GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view kEcho = "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST(Shutdown, DrainLetsAnswersFinish) {
  TestServer server({}, 2);
  RawClient resting(server.port());
  resting.send(kEcho);
  EXPECT_EQ(resting.read_answer().status, 200);
  RawClient streaming(server.port());
  streaming.send(kHold);
  const auto stream = server.handler().wait_held(1);
  server.on_loop(stream, [](Exchange& exchange) {
    exchange.start(200, {});
    exchange.write("before ");
  });
  RawClient waiting(server.port());
  waiting.send(kHold);
  const auto wait = server.handler().wait_held(2);

  server.server().drain();
  resting.read_all();
  EXPECT_TRUE(resting.closed());
  EXPECT_TRUE(server.wait_until([&] { return !RawClient(server.port()).connected(); })) << "no longer listens";

  server.on_loop(wait, [](Exchange& exchange) { exchange.respond({200, {}, "answered"}); });
  const auto answer = waiting.read_answer();
  EXPECT_EQ(answer.body, "answered");
  EXPECT_THAT(answer.head, HasSubstr("connection: close"));
  server.on_loop(stream, [](Exchange& exchange) {
    EXPECT_FALSE(exchange.gone());
    exchange.write("after");
    exchange.finish();
  });
  EXPECT_EQ(streaming.read_answer().body, "before after");
  streaming.read_all();
  EXPECT_TRUE(streaming.closed());
  waiting.close();
  streaming.close();
  EXPECT_TRUE(server.wait_open(0));
}

TEST(Shutdown, StopTellsEveryExchangeBeforeItReturns) {
  TestServer server({}, 2);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(kHold);
  }
  server.handler().wait_held(6);
  server.server().stop();
  EXPECT_EQ(server.handler().gone(), 6U);
  EXPECT_EQ(server.server().stats().open, 0U);
  for (auto& client : clients) {
    client->read_all();
    EXPECT_TRUE(client->closed());
  }
  server.server().stop();
  server.server().drain();
}

TEST(Shutdown, StoppedUnderLoad) {
  for (int round = 0; round < 20; ++round) {
    TestServer server({}, 2);
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      clients.back()->send(i % 2 == 0 ? kEcho : kHold);
      clients.back()->send("GET /stream?100 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
  }
}

TEST(Shutdown, LoopsThatStopFirst) {
  const SystemClock clock;
  SteeredHandler handler;
  auto loop = Loop::create(clock);
  auto server = std::move(Server::listen({}, {loop.get()}, handler)).value();
  RawClient client(server->port());
  client.send(kHold);
  handler.wait_held(1);
  loop->stop();
  server->stop();
  server = nullptr;
  handler.forget();
  client.read_all();
  EXPECT_TRUE(client.closed());
}

TEST(Shutdown, AnExchangeOutlivesServerAndLoop) {
  const SystemClock clock;
  SteeredHandler handler;
  auto loop = Loop::create(clock);
  auto server = std::move(Server::listen({}, {loop.get()}, handler)).value();
  RawClient client(server->port());
  client.send(kHold);
  auto exchange = handler.wait_held(1)->exchange;
  server = nullptr;
  loop->stop();
  loop = nullptr;
  EXPECT_TRUE(exchange->gone());
  exchange->write("nobody");
  exchange->respond({});
  handler.wait_held(1)->exchange = nullptr;
  exchange = nullptr;
}

}  // namespace
}  // namespace kvern::net

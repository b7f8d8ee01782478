// The server over real sockets: what every client does.
#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/testing/raw_client.h"
#include "net/testing/test_server.h"

namespace kvern::net {
namespace {

using testing::Answer;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawClient;
using testing::TestServer;

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send("GET /echo?a=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "GET /echo?a=1 ");
    EXPECT_THAT(answer.head, HasSubstr("date: "));
    EXPECT_THAT(answer.head, Not(HasSubstr("connection:")));
  }
  EXPECT_EQ(server.server().stats().accepted, 1U);
}

TEST(HttpServer, TakesBodiesWithLengthAndInChunks) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(client.read_answer().body, "POST /echo hello");
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: dropped\r\n\r\n");
  EXPECT_EQ(client.read_answer().body, "POST /echo hello world");
}

TEST(HttpServer, TakesABodyOf32MegabytesAndNoMore) {
  TestServer server;
  RawClient client(server.port());
  const std::size_t size = 32U << 20U;
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
  client.send(std::string(size, 'x'));
  EXPECT_EQ(client.read_answer().body.size(), size + std::string_view("POST /echo ").size());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(size + 1) + "\r\n\r\n");
  const Answer refused = client.read_answer();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, ::testing::EndsWith("/echo")) << "the handler sees whose request it refuses";
  client.read_all();
  EXPECT_TRUE(client.closed());
}

TEST(HttpServer, HeadHasTheLengthAndNoBody) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\nGET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer head = client.read_answer(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.head, HasSubstr("content-length: 11"));
  EXPECT_EQ(client.read_answer().body, "GET /echo ");
}

TEST(HttpServer, HeadOfAStreamHasNoChunks) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /stream?3 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).status, 200);
  EXPECT_EQ(client.read_answer().body, "GET /echo ");
}

TEST(HttpServer, NoContentHasNoBodyAndNoLength) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /empty HTTP/1.1\r\nHost: localhost\r\n\r\nGET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 204);
  EXPECT_THAT(answer.head, Not(HasSubstr("content-length")));
  EXPECT_THAT(answer.head, Not(HasSubstr("transfer-encoding")));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpServer, StreamsInOneChunkPerTurn) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /stream?3 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("\r\n1b\r\ndata: 0\n\ndata: 1\n\ndata: 2\n\n\r\n0\r\n\r\n"));
}

TEST(HttpServer, StreamLeavesAsItIsWritten) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto held = server.handler().wait_held(1);
  server.on_loop(held, [](Exchange& exchange) {
    exchange.start(200, {{"content-type", "text/event-stream"}, {"x-bad", "a\r\nb: c"}});
    exchange.write("data: one\n\n");
  });
  const std::string seen = client.read_until("data: one\n\n");
  EXPECT_THAT(seen, HasSubstr("data: one"));
  EXPECT_THAT(seen, HasSubstr("x-bad: a  b: c\r\n"));
  server.on_loop(held, [](Exchange& exchange) {
    exchange.write("data: two\n\n");
    exchange.finish();
    EXPECT_FALSE(exchange.gone());
    exchange.write("ignored");
  });
  EXPECT_EQ(client.read_answer().body, "data: one\n\ndata: two\n\n");
}

TEST(HttpServer, ServesPipelinedRequestsInOrder) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (int i = 0; i < 50; ++i) client.send("GET /echo?" + std::to_string(i) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto held = server.handler().wait_held(1);
  EXPECT_EQ(server.handler().served(), 1U);
  server.on_loop(held, [](Exchange& exchange) { exchange.respond({200, {}, "first"}); });
  EXPECT_EQ(client.read_answer().body, "first");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read_answer().body, "GET /echo?" + std::to_string(i) + " ");
}

TEST(HttpServer, ContinueComesOnlyAfterAdmission) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("ok");
  EXPECT_EQ(client.read_answer().body, "POST /echo ok");
  client.send("POST /refuse HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
  client.read_all();
  EXPECT_TRUE(client.closed());
  RawClient other(server.port());
  other.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: a-miracle\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(other.read_answer().status, 417);
}

TEST(HttpServer, ARefusalWithoutABodyKeepsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /refuse HTTP/1.1\r\nHost: localhost\r\n\r\nGET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpServer, SpeaksHttp10) {
  TestServer server;
  RawClient once(server.port());
  once.send("GET /echo HTTP/1.0\r\n\r\n");
  const std::string all = once.read_all();
  EXPECT_THAT(all, HasSubstr("connection: close"));
  EXPECT_THAT(all, HasSubstr("GET /echo "));
  EXPECT_TRUE(once.closed());
  RawClient kept(server.port());
  for (int i = 0; i < 2; ++i) {
    kept.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_THAT(kept.read_answer().head, HasSubstr("connection: keep-alive"));
  }
  RawClient streamed(server.port());
  streamed.send("GET /stream?2 HTTP/1.0\r\n\r\n");
  const std::string events = streamed.read_all();
  EXPECT_THAT(events, ::testing::EndsWith("\r\n\r\ndata: 0\n\ndata: 1\n\n"));
  EXPECT_THAT(events, Not(HasSubstr("chunked")));
}

TEST(HttpServer, ClosesWhenAsked) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("connection: close"));
  EXPECT_TRUE(client.closed());
}

TEST(HttpServer, ADroppedExchangeEndsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /drop HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(client.closed());
}

TEST(HttpServer, ATakenPortSaysWhatToDo) {
  TestServer server;
  SystemClock clock;
  const auto loop = Loop::create(clock);
  testing::SteeredHandler handler;
  ServerOptions options;
  options.port = server.port();
  const auto second = Server::listen(options, {loop.get()}, handler);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("is taken; use --port 0"));
}

TEST(HttpServer, SpreadsConnectionsOverItsLoops) {
  TestServer server({}, 2);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n");
    server.handler().wait_held(clients.size());
  }
  int on_first = 0;
  for (std::size_t i = 1; i <= 4; ++i) {
    if (&server.handler().wait_held(i)->exchange->loop() == &server.loop(0)) ++on_first;
  }
  EXPECT_EQ(on_first, 2);
}

}  // namespace
}  // namespace kvern::net

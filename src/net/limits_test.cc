// The server against clients that are slow, large, many or malicious: each bound holds, and has its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "net/testing/raw_client.h"
#include "net/testing/test_server.h"

namespace kvern::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Answer;
using ::testing::HasSubstr;
using testing::RawClient;
using testing::resident_bytes;
using testing::TestServer;

constexpr std::string_view kEcho = "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";

void expect_serves(TestServer& server) {
  RawClient client(server.port());
  client.send(kEcho);
  EXPECT_EQ(client.read_answer().status, 200);
}

/// One answer of this status, then the end.
void expect_refused(RawClient& client, int status) {
  EXPECT_EQ(client.read_answer().status, status);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(client.closed());
}

TEST(Limits, ContradictingFramingGetsOneAnswerAndTheEnd) {
  TestServer server;
  RawClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
      "0\r\n\r\nGET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect_refused(client, 400);
  EXPECT_EQ(server.handler().served(), 0U);
}

TEST(Limits, OddChunksAreRefused) {
  TestServer server;
  const std::vector<std::pair<std::string, int>> cases = {{"-5", 400},
                                                          {"0x5", 400},
                                                          {"+5", 400},
                                                          {"5 5", 400},
                                                          {"", 400},
                                                          {"FFFFFFFFFFFFFFFFF", 400},
                                                          {"FFFFFFFFFFFFFFFF", 413},
                                                          {"5;" + std::string(1U << 20U, 'x'), 431}};
  for (const auto& [size, status] : cases) {
    RawClient client(server.port());
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(size + "\r\nhello\r\n0\r\n\r\n");
    SCOPED_TRACE(size.substr(0, 20));
    expect_refused(client, status);
  }
}

TEST(Limits, AHostThatRewritesThePathIsRefused) {
  TestServer server;
  for (const auto* host : {"a/?x=", "localhost/?", "localhost/#", "localhost/v1/models?", "a@b", "a b", ""}) {
    RawClient client(server.port());
    client.send("GET /echo HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    SCOPED_TRACE(host);
    expect_refused(client, 400);
  }
}

TEST(Limits, AFloodOfHeadersGetsItsAnswer) {
  TestServer server;
  std::string flood = "GET /echo HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 20'000; ++i) flood += "x-" + std::to_string(i) + ": " + std::string(100, 'a') + "\r\n";
  RawClient client(server.port());
  client.send(flood + "\r\n");
  expect_refused(client, 431);
  expect_serves(server);
}

TEST(Limits, SlowHeadersGet408) {
  ServerOptions options;
  options.header_deadline = milliseconds(150);
  TestServer server(options);
  RawClient client(server.port());
  const auto start = steady_clock::now();
  for (const char c : std::string_view("GET /echo HTTP/1.1\r\nHost: localhost\r\nx-a: bbbbbbbbbbbbbbbbbbbb")) {
    // Paced by the reads: each waits 10 ms for an answer that does not come yet.
    if (!client.send(std::string_view(&c, 1)) || !client.read_until("\r\n\r\n", milliseconds(10)).empty()) break;
  }
  expect_refused(client, 408);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_TRUE(server.wait_open(0));
}

TEST(Limits, ASlowBodyGets408) {
  ServerOptions options;
  options.body_deadline = milliseconds(100);
  TestServer server(options);
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
  expect_refused(client, 408);
}

TEST(Limits, ARestingConnectionIsClosedSilently) {
  ServerOptions options;
  options.idle_deadline = milliseconds(100);
  TestServer server(options);
  RawClient silent(server.port());
  RawClient rested(server.port());
  rested.send(kEcho);
  EXPECT_EQ(rested.read_answer().status, 200);
  rested.send("\r\n\r\n");
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_EQ(rested.read_all(), "");
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(rested.closed());
}

TEST(Limits, AWaitingRequestHasNoDeadline) {
  ServerOptions options;
  options.idle_deadline = options.header_deadline = options.body_deadline = milliseconds(50);
  TestServer server(options);
  RawClient client(server.port());
  client.send("POST /hold HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
  const auto held = server.handler().wait_held(1);
  EXPECT_FALSE(server.handler().wait_gone(1, milliseconds(200)));
  server.on_loop(held, [](Exchange& exchange) { exchange.respond({200, {}, "at last"}); });
  EXPECT_EQ(client.read_answer().body, "at last");
}

TEST(Limits, AnAnnouncedBodyOverTheLimitIsRefusedUnread) {
  TestServer server;
  const std::size_t before = resident_bytes();
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 41943040\r\n\r\n");
  // A client that sends everything before it reads: the answer reaches it all the same.
  const std::string part(1U << 20U, 'a');
  bool sent = true;
  for (int i = 0; i < 40 && sent; ++i) sent = client.send(part);
  EXPECT_TRUE(sent);
  expect_refused(client, 413);
  EXPECT_LT(resident_bytes(), before + testing::kMemoryFactor * (8U << 20U));
  EXPECT_EQ(server.handler().served(), 0U);
}

TEST(Limits, AChunkedBodyThatGrowsOverTheLimitIsRefused) {
  ServerOptions options;
  options.body_bytes_max = 1U << 20U;
  TestServer server(options);
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, 'a') + "\r\n";
  for (int i = 0; i < 20; ++i) client.send(chunk);
  expect_refused(client, 413);
}

TEST(Limits, PipeliningWithoutReadingDoesNotGrowMemory) {
  TestServer server;
  expect_serves(server);
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "GET /big?2000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
  RawClient client(server.port(), 4096);
  const std::size_t before = resident_bytes();
  std::size_t sent = 0;
  // Until nothing moves any more: the server has stopped reading.
  for (int still = 0; still < 20 && sent < many.size();) {
    const std::size_t count = client.send_some(std::string_view(many).substr(sent));
    sent += count;
    still = count == 0 ? still + 1 : 0;
    if (count == 0) server.handler().wait_gone(1, milliseconds(5));
  }
  EXPECT_LT(server.handler().served(), 20'000U);
  const std::size_t after = resident_bytes();
  const std::size_t grown = after > before ? after - before : 0;
  RecordProperty("grown_bytes", std::to_string(grown));
  EXPECT_LT(grown, testing::kMemoryFactor * (2U << 20U));
  expect_serves(server);
}

TEST(Limits, ASlowReaderIsCutOffByBytes) {
  ServerOptions options;
  options.write_buffer_max = 64U << 10U;
  TestServer server(options);
  RawClient client(server.port(), 4096);
  client.send("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto held = server.handler().wait_held(1);
  server.on_loop(held, [](Exchange& exchange) { exchange.start(200, {}); });
  const std::size_t before = resident_bytes();
  std::size_t written = 0;
  bool gone = false;
  while (!gone && written < (64U << 20U)) {
    server.on_loop(held, [&](Exchange& exchange) {
      exchange.write(std::string(10'000, 'x'));
      gone = exchange.gone();
    });
    written += 10'000;
  }
  EXPECT_TRUE(gone);
  EXPECT_LT(written, 8U << 20U);
  EXPECT_LT(resident_bytes(), before + testing::kMemoryFactor * (4U << 20U));
  EXPECT_TRUE(server.handler().wait_gone(1, milliseconds(500)));
}

TEST(Limits, ASlowReaderIsCutOffByTime) {
  ServerOptions options;
  options.write_deadline = milliseconds(150);
  TestServer server(options);
  RawClient client(server.port(), 4096);
  client.send("GET /big?30000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(server.wait_open(1));
  EXPECT_TRUE(server.wait_open(0));
}

TEST(Limits, ALargeAnswerReachesASlowButSteadyReader) {
  ServerOptions options;
  options.write_deadline = milliseconds(500);
  TestServer server(options);
  RawClient client(server.port(), 4096);
  client.send("GET /big?3000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer answer = client.read_answer(false, std::chrono::seconds(20));
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.body.size(), 3'000'000U);
}

TEST(Limits, ConnectionsBeyondTheMaximumGet503) {
  ServerOptions options;
  options.connections_max = 3;
  TestServer server(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(kEcho);
    EXPECT_EQ(clients.back()->read_answer().status, 200);
  }
  for (int i = 0; i < 5; ++i) {
    RawClient extra(server.port());
    extra.send(kEcho);
    SCOPED_TRACE(i);
    expect_refused(extra, 503);
  }
  EXPECT_EQ(server.server().stats().refused, 5U);
  clients.clear();
  EXPECT_TRUE(server.wait_open(0));
  expect_serves(server);
}

}  // namespace
}  // namespace kvern::net

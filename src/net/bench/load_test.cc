#include "net/bench/load.h"

#include <gtest/gtest.h>

#include "net/http_server.h"

namespace kvern::net {
namespace {

/// `/whole` a sized answer, `/stream` three events in two writes, `/bad` a 400, `/close` closes after its answer.
class Answers final : public Handler {
 public:
  std::optional<Response> admit(const RequestHead&) override { return std::nullopt; }
  Response refuse(int status, std::string_view, const RequestHead&) override { return {status, {}, {}}; }
  void serve(Request request, std::shared_ptr<Exchange> exchange) override {
    if (request.head.path == "/stream") {
      exchange->start(200, {{"content-type", "text/event-stream"}});
      exchange->write("data: 1\n\ndata: 2\n");
      exchange->loop().post([exchange] {
        exchange->write("\ndata: 3\n\n");
        exchange->finish();
      });
      return;
    }
    exchange->respond({request.head.path == "/bad" ? 400 : 200, {}, request.body, request.head.path == "/close"});
  }
};

class LoadTest : public ::testing::Test {
 protected:
  LoadTest() { server = std::move(Server::listen({}, {loop.get()}, answers)).value(); }
  ~LoadTest() override { server->stop(); }
  LoadResult load(const std::string& path) {
    LoadOptions options;
    options.port = server->port();
    options.path = path;
    options.body = std::string(3'000, 'b');
    options.connections = 3;
    options.requests_max = 30;
    return std::move(run_load(options)).value();
  }
  SystemClock clock;
  Answers answers;
  std::unique_ptr<Loop> loop = Loop::create(clock);
  std::unique_ptr<Server> server;
};

TEST_F(LoadTest, CountsWholeAnswers) {
  const auto result = load("/whole");
  EXPECT_EQ(result.answers, 30U);
  EXPECT_EQ(result.errors, 0U);
  EXPECT_EQ(result.latency.count, 30U);
  EXPECT_LE(result.latency.p50, result.latency.p99);
}

TEST_F(LoadTest, CountsTheEventsOfStreams) {
  const auto result = load("/stream");
  EXPECT_EQ(result.answers, 30U);
  EXPECT_EQ(result.events, 90U);
  EXPECT_EQ(result.first_event.count, 30U);
  EXPECT_EQ(result.gap.count, 60U);
  EXPECT_GE(result.reads, 30U);
}

TEST_F(LoadTest, OtherStatusesAreErrorsAndClosedConnectionsAreRenewed) {
  EXPECT_EQ(load("/bad").errors, 30U);
  EXPECT_EQ(load("/close").answers, 30U);
}

TEST(Load, NobodyThereIsAnError) {
  LoadOptions options;
  options.port = 1;
  EXPECT_EQ(run_load(options).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kvern::net

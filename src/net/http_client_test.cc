// The client against kvern's own server and against workers that misbehave.
#include "net/http_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/socket.h"
#include "net/testing/test_server.h"

namespace kvern::net {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::TestServer;

/// Gathers an answer; the test's thread waits for it.
class Gather final : public ClientCallbacks {
 public:
  void on_head(const ClientHead& head) override {
    const std::lock_guard lock(mutex_);
    head_ = head;
    ++calls_;
    changed_.notify_all();
  }
  void on_body(std::string_view bytes) override {
    std::function<void()> hook;
    {
      const std::lock_guard lock(mutex_);
      body_ += bytes;
      ++calls_;
      changed_.notify_all();
      hook = body_hook;
    }
    if (hook) hook();
  }
  void on_end(Result<void> result) override {
    const std::lock_guard lock(mutex_);
    ++calls_;
    ++ends_;
    result_ = std::move(result);
    changed_.notify_all();
  }

  bool wait(std::chrono::seconds within = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [&] { return ends_ > 0; });
  }
  bool wait_body(std::size_t size) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return body_.size() >= size; });
  }
  int status() { return locked(head_.status); }
  std::string body() { return locked(body_); }
  int ends() { return locked(ends_); }
  int calls() { return locked(calls_); }
  Result<void> result() { return locked(result_); }

  std::function<void()> body_hook;  // set before the request

 private:
  template <typename T>
  T locked(const T& value) {
    const std::lock_guard lock(mutex_);
    return value;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  ClientHead head_;
  std::string body_;
  int ends_ = 0;
  int calls_ = 0;
  Result<void> result_;
};

/// A client on a loop of its own.
class TestClient {
 public:
  explicit TestClient(std::size_t idle_max = 64) : loop_(Loop::create(clock_)) {
    loop_->run_and_wait([&] { client_ = Client::create(*loop_, idle_max); });
  }
  ~TestClient() {
    loop_->run_and_wait([&] { client_ = nullptr; });
  }
  std::uint64_t send(ClientRequest request, std::shared_ptr<ClientCallbacks> callbacks) {
    std::uint64_t handle = 0;
    loop_->run_and_wait([&] { handle = client_->send(std::move(request), std::move(callbacks)); });
    return handle;
  }
  void cancel(std::uint64_t handle) {
    loop_->run_and_wait([&] { client_->cancel(handle); });
  }
  std::shared_ptr<Gather> get(std::uint16_t port, std::string target, std::string body = {}) {
    auto gather = std::make_shared<Gather>();
    send(request(port, std::move(target), std::move(body)), gather);
    EXPECT_TRUE(gather->wait());
    return gather;
  }
  static ClientRequest request(std::uint16_t port, std::string target, std::string body = {}) {
    ClientRequest request;
    request.host = "127.0.0.1";
    request.port = port;
    request.method = body.empty() ? "GET" : "POST";
    request.target = std::move(target);
    request.body = std::move(body);
    return request;
  }
  Client& client() { return *client_; }
  Loop& loop() { return *loop_; }

 private:
  SystemClock clock_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Client> client_;
};

/// A worker that runs `script` on each connection's descriptor, one connection after the other, in a thread.
class ScriptedWorker {
 public:
  ScriptedWorker(int connections, std::function<void(int fd)> script)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_.get(), 16);
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, connections, script = std::move(script)] {
      for (int i = 0; i < connections; ++i) {
        const UniqueFd socket(::accept(listener_.get(), nullptr, nullptr));
        if (!socket.valid()) return;
        ++accepted;
        script(socket.get());
      }
    });
  }
  ~ScriptedWorker() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::uint16_t port() const { return port_; }
  std::atomic<int> accepted{0};

  /// Reads a request's head.
  static void take_head(int fd) {
    std::string head;
    char byte = 0;
    while (head.find("\r\n\r\n") == std::string::npos && ::recv(fd, &byte, 1, 0) == 1) head.push_back(byte);
  }
  /// Sends all unless the client closes; false then.
  static bool say(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Waits for the client's close.
  static void until_closed(int fd) {
    char byte = 0;
    while (::recv(fd, &byte, 1, 0) > 0) {
    }
  }

 private:
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

void expect_error(const std::shared_ptr<Gather>& gather, ErrorCode code) {
  ASSERT_FALSE(gather->result().ok());
  EXPECT_EQ(gather->result().error().code, code) << gather->result().error().message;
  EXPECT_EQ(gather->ends(), 1);
}

TEST(HttpClient, AsksAndReusesItsConnection) {
  TestServer server;
  TestClient client;
  for (int i = 0; i < 5; ++i) {
    const auto answer = client.get(server.port(), "/echo", "body");
    EXPECT_TRUE(answer->result().ok());
    EXPECT_EQ(answer->status(), 200);
    EXPECT_EQ(answer->body(), "POST /echo body");
  }
  EXPECT_EQ(server.server().stats().accepted, 1U);
}

TEST(HttpClient, KnowsLocalhostByName) {
  TestServer server;
  TestClient client;
  auto gather = std::make_shared<Gather>();
  auto request = TestClient::request(server.port(), "/echo");
  request.host = "localhost";
  client.send(request, gather);
  ASSERT_TRUE(gather->wait());
  EXPECT_EQ(gather->status(), 200);
}

TEST(HttpClient, StreamsAsBytesCome) {
  TestServer server;
  TestClient client;
  auto gather = std::make_shared<Gather>();
  client.send(TestClient::request(server.port(), "/hold"), gather);
  const auto held = server.handler().wait_held(1);
  server.on_loop(held, [](Exchange& exchange) {
    exchange.start(200, {});
    exchange.write("first");
  });
  EXPECT_TRUE(gather->wait_body(5));
  EXPECT_EQ(gather->ends(), 0);
  server.on_loop(held, [](Exchange& exchange) {
    exchange.write(" second");
    exchange.finish();
  });
  ASSERT_TRUE(gather->wait());
  EXPECT_EQ(gather->body(), "first second");
}

TEST(HttpClient, CarriesLargeBodiesBothWays) {
  TestServer server;
  TestClient client;
  const auto answer = client.get(server.port(), "/echo", std::string(20U << 20U, 'x'));
  EXPECT_TRUE(answer->result().ok());
  EXPECT_EQ(answer->body().size(), (20U << 20U) + 11U);
}

TEST(HttpClient, SaysWhenItCannotConnect) {
  std::uint16_t port = 0;
  {
    TestServer server;
    port = server.port();
  }
  TestClient client;
  expect_error(client.get(port, "/"), ErrorCode::kUnavailable);
}

TEST(HttpClient, KeepsItsDeadlines) {
  ScriptedWorker worker(2, [n = 0](int fd) mutable {
    ScriptedWorker::take_head(fd);
    if (n++ == 1) ScriptedWorker::say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    ScriptedWorker::until_closed(fd);
  });
  TestClient client;
  auto request = TestClient::request(worker.port(), "/");
  request.first_byte_deadline = milliseconds(100);
  auto first = std::make_shared<Gather>();
  client.send(request, first);
  ASSERT_TRUE(first->wait());
  expect_error(first, ErrorCode::kTimeout);
  request.first_byte_deadline = std::chrono::seconds(10);
  request.between_deadline = milliseconds(100);
  auto second = std::make_shared<Gather>();
  client.send(request, second);
  ASSERT_TRUE(second->wait());
  expect_error(second, ErrorCode::kTimeout);
  EXPECT_EQ(second->body(), "abc");
}

TEST(HttpClient, WithstandsHostileWorkers) {
  const std::vector<std::string> starts = {
      "",                                                                           // bytes without end, no newline
      "HTTP/1.1 200 OK\r\n",                                                        // a head without end
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",  // a chunk without end
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;",                    // an extension without end
      "HTTP/1.1 200 OK\r\n\r\n",                                                    // a body without end
  };
  for (const auto& start : starts) {
    ScriptedWorker worker(1, [&](int fd) {
      ScriptedWorker::take_head(fd);
      ScriptedWorker::say(fd, start);
      const std::string part = std::string(1U << 20U, 'a');
      for (int i = 0; i < 200 && ScriptedWorker::say(fd, part); ++i) {
      }
    });
    TestClient client;
    auto request = TestClient::request(worker.port(), "/");
    request.body_bytes_max = 1U << 20U;
    auto gather = std::make_shared<Gather>();
    const std::size_t before = testing::resident_bytes();
    const auto since = std::chrono::steady_clock::now();
    client.send(request, gather);
    ASSERT_TRUE(gather->wait());
    expect_error(gather, ErrorCode::kEngine);
    EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(2)) << start;
    EXPECT_LT(testing::resident_bytes(), before + testing::kMemoryFactor * (12U << 20U)) << start;
  }
}

TEST(HttpClient, EndlessInterimAnswersAreAnError) {
  ScriptedWorker worker(1, [](int fd) {
    ScriptedWorker::take_head(fd);
    while (ScriptedWorker::say(fd, "HTTP/1.1 100 Continue\r\n\r\n")) {
    }
  });
  TestClient client;
  expect_error(client.get(worker.port(), "/"), ErrorCode::kEngine);
}

TEST(HttpClient, ABrokenAnswerIsAnErrorAndNotSentAgain) {
  ScriptedWorker worker(2, [](int fd) {
    ScriptedWorker::take_head(fd);
    ScriptedWorker::say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  TestClient client;
  expect_error(client.get(worker.port(), "/"), ErrorCode::kEngine);
  EXPECT_EQ(worker.accepted, 1);
}

TEST(HttpClient, AFreshConnectionThatBreaksIsNotSentAgain) {
  ScriptedWorker worker(2, [](int fd) { ScriptedWorker::take_head(fd); });
  TestClient client;
  expect_error(client.get(worker.port(), "/"), ErrorCode::kEngine);
  EXPECT_EQ(worker.accepted, 1);
}

TEST(HttpClient, APooledConnectionThatBreaksAtOnceIsReplaced) {
  ScriptedWorker worker(3, [n = 0](int fd) mutable {
    ScriptedWorker::take_head(fd);
    ScriptedWorker::say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    if (n++ == 0) ScriptedWorker::take_head(fd);  // takes the second request and breaks
  });
  TestClient client;
  EXPECT_EQ(client.get(worker.port(), "/")->body(), "ok");
  EXPECT_EQ(client.get(worker.port(), "/")->body(), "ok");
  EXPECT_EQ(worker.accepted, 2);
}

TEST(HttpClient, SurplusBytesNeverReachTheNextRequest) {
  ScriptedWorker worker(2, [](int fd) {
    ScriptedWorker::take_head(fd);
    ScriptedWorker::say(
        fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    ScriptedWorker::until_closed(fd);
  });
  TestClient client;
  EXPECT_EQ(client.get(worker.port(), "/")->body(), "ok");
  EXPECT_EQ(client.get(worker.port(), "/")->body(), "ok");
  EXPECT_EQ(worker.accepted, 2);
}

TEST(HttpClient, RedirectsAreAnswersLikeOthers) {
  ScriptedWorker worker(1, [](int fd) {
    ScriptedWorker::take_head(fd);
    ScriptedWorker::say(fd, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  });
  TestClient client;
  EXPECT_EQ(client.get(worker.port(), "/")->status(), 302);
}

TEST(HttpClient, CancelClosesAndSilences) {
  TestServer server;
  TestClient client;
  auto gather = std::make_shared<Gather>();
  const auto handle = client.send(TestClient::request(server.port(), "/hold"), gather);
  server.handler().wait_held(1);
  client.cancel(handle);
  EXPECT_TRUE(server.handler().wait_gone(1, milliseconds(500)));
  EXPECT_EQ(gather->calls(), 0);
  client.cancel(handle);
}

TEST(HttpClient, CancelFromWithinACallback) {
  TestServer server;
  TestClient client;
  auto gather = std::make_shared<Gather>();
  std::atomic<std::uint64_t> handle{0};
  gather->body_hook = [&] { client.client().cancel(handle); };
  client.loop().run_and_wait(
      [&] { handle = client.client().send(TestClient::request(server.port(), "/stream?100"), gather); });
  ASSERT_TRUE(gather->wait_body(1));
  EXPECT_EQ(client.get(server.port(), "/echo")->body(), "GET /echo ");
  EXPECT_EQ(gather->ends(), 0);
}

// A cancelled request's answer must never reach another request: every answer carries its request's number.
TEST(HttpClient, CancelledConnectionsAreNotReused) {
  TestServer server({}, 2);
  TestClient client;
  for (int round = 0; round < 1'000; ++round) {
    const std::string marker = "round-" + std::to_string(round);
    auto cancelled = std::make_shared<Gather>();
    const auto handle = client.send(TestClient::request(server.port(), "/echo", "cancelled-" + marker), cancelled);
    if (round % 2 == 0) cancelled->wait_body(static_cast<std::size_t>(round % 3));
    client.cancel(handle);
    const auto answer = client.get(server.port(), "/echo", marker);
    ASSERT_TRUE(answer->result().ok());
    ASSERT_EQ(answer->body(), "POST /echo " + marker);
  }
  EXPECT_TRUE(server.wait_until([&] { return server.server().stats().open <= 64; }));
}

TEST(HttpClient, DestroyedWithRequestsUnderWay) {
  TestServer server;
  auto gather = std::make_shared<Gather>();
  {
    TestClient client;
    for (int i = 0; i < 3; ++i) client.send(TestClient::request(server.port(), "/hold"), gather);
    server.handler().wait_held(3);
  }
  EXPECT_TRUE(server.handler().wait_gone(3, milliseconds(500)));
  EXPECT_EQ(gather->calls(), 0);
}

}  // namespace
}  // namespace kvern::net

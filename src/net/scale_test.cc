// Many connections, and no descriptors left. Small by default; with KVERN_FULL=1 the sizes that are promised.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "net/testing/raw_client.h"
#include "net/testing/test_server.h"

namespace kvern::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::RawClient;
using testing::resident_bytes;
using testing::TestServer;

constexpr std::string_view kEcho = "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";

bool full_size() { return std::getenv("KVERN_FULL") != nullptr; }

TEST(Scale, ManyStreamsAtOnce) {
  raise_descriptor_limit();
  const std::size_t count = full_size() ? 1'000 : 100;
  TestServer server({}, 2);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  server.handler().wait_held(count);
  std::vector<std::shared_ptr<testing::Held>> streams;
  for (std::size_t i = 1; i <= count; ++i) streams.push_back(server.handler().wait_held(i));
  for (std::size_t i = 0; i < 2; ++i) {
    server.loop(i).run_and_wait([&] {
      for (auto& stream : streams) {
        if (&stream->exchange->loop() == &server.loop(i)) stream->exchange->start(200, {});
      }
    });
  }
  std::string expected;
  for (int event = 0; event < 20; ++event) {
    const std::string text = "data: " + std::to_string(event) + "\n\n";
    expected += text;
    for (std::size_t i = 0; i < 2; ++i) {
      server.loop(i).run_and_wait([&] {
        for (auto& stream : streams) {
          if (&stream->exchange->loop() == &server.loop(i)) stream->exchange->write(text);
        }
      });
    }
  }
  for (auto& stream : streams) server.on_loop(stream, [](Exchange& exchange) { exchange.finish(); });
  for (auto& client : clients) {
    const auto answer = client->read_answer();
    ASSERT_TRUE(answer.complete);
    ASSERT_EQ(answer.body, expected);
  }
  EXPECT_EQ(server.handler().gone(), 0U);
}

/// Clients in a process of their own, so that their descriptors do not count here. Only system calls after the fork.
class ClientProcess {
 public:
  ClientProcess(std::uint16_t port, std::size_t count, bool ask) {
    std::array<int, 2> from{};
    std::array<int, 2> to{};
    if (::pipe(from.data()) != 0 || ::pipe(to.data()) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to[1]);
      run(port, count, ask, from[1], to[0]);
    }
    from_.reset(from[0]);
    to_.reset(to[1]);
    ::close(from[1]);
    ::close(to[0]);
  }
  ~ClientProcess() {
    to_.reset();
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  /// Waits until all are connected; how many are.
  std::uint32_t connected() {
    std::uint32_t count = 0;
    EXPECT_EQ(::read(from_.get(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
    return count;
  }
  void close_all() { to_.reset(); }

 private:
  [[noreturn]] static void run(std::uint16_t port, std::size_t count, bool ask, int out, int in) {
    std::uint32_t connected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto* client = new RawClient(port);  // closed by the exit
      if (!client->connected()) continue;
      ++connected;
      if (ask && client->send(kEcho)) client->read_answer();
    }
    if (::write(out, &connected, sizeof connected) < 0) ::_exit(1);
    char byte = 0;
    while (::read(in, &byte, 1) > 0) {
    }
    ::_exit(0);
  }
  pid_t pid_ = -1;
  UniqueFd from_;
  UniqueFd to_;
};

TEST(Scale, RestingConnectionsAreSmall) {
  raise_descriptor_limit();
  const std::size_t count = full_size() ? 10'000 : 500;
  for (const bool ask : {false, true}) {
    TestServer server;
    RawClient warm(server.port());
    warm.send(kEcho);
    EXPECT_EQ(warm.read_answer().status, 200);
    const std::size_t before = resident_bytes();
    ClientProcess clients(server.port(), count, ask);
    ASSERT_EQ(clients.connected(), count);
    ASSERT_TRUE(server.wait_open(static_cast<std::uint32_t>(count + 1)));
    const std::size_t after = resident_bytes();
    const std::size_t each = (after > before ? after - before : 0) / count;
    std::cout << count << " resting connections" << (ask ? " after a request" : "") << ": " << each << " bytes each\n";
    if (full_size()) {
      EXPECT_LT(each, 5'000U);
    }
    warm.send(kEcho);
    EXPECT_EQ(warm.read_answer().status, 200);
    clients.close_all();
    EXPECT_TRUE(server.wait_open(1));
  }
}

/// A server in a process of its own that may open 128 descriptors.
class StarvedServer {
 public:
  explicit StarvedServer(std::size_t connections_max) {
    std::array<int, 2> from{};
    std::array<int, 2> to{};
    if (::pipe(from.data()) != 0 || ::pipe(to.data()) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to[1]);
      run(connections_max, from[1], to[0]);
    }
    from_.reset(from[0]);
    to_.reset(to[1]);
    ::close(from[1]);
    ::close(to[0]);
    EXPECT_EQ(::read(from_.get(), &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
  }
  ~StarvedServer() {
    to_.reset();
    int status = 0;
    ::waitpid(pid_, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::uint16_t port() const { return port_; }
  /// CPU time used so far, in clock ticks (10 ms).
  long cpu_ticks() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string word;
    long ticks = 0;
    for (int field = 1; field <= 15 && file >> word; ++field) {
      if (field >= 14) ticks += std::stol(word);
    }
    return ticks;
  }

 private:
  [[noreturn]] static void run(std::size_t connections_max, int out, int in) {
    const rlimit limit{128, 128};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    {
      ServerOptions options;
      options.connections_max = connections_max;
      TestServer server(options);
      const std::uint16_t port = server.port();
      if (::write(out, &port, sizeof port) < 0) ::_exit(1);
      char byte = 0;
      while (::read(in, &byte, 1) > 0) {
      }
    }
    ::_exit(0);
  }
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  UniqueFd from_;
  UniqueFd to_;
};

void starve(std::size_t connections_max) {
  raise_descriptor_limit();
  StarvedServer server(connections_max);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 500; ++i) clients.push_back(std::make_unique<RawClient>(server.port()));
  int refused = 0;
  for (auto& client : clients) {
    if (client->read_answer(false, milliseconds(refused == 0 ? 20 : 5)).status == 503) ++refused;
  }
  EXPECT_GE(refused, 300);
  // Full and left alone: the accept loop rests. One second is 100 ticks.
  const long before = server.cpu_ticks();
  ::poll(nullptr, 0, 1'000);
  EXPECT_LE(server.cpu_ticks() - before, 5);

  clients.erase(clients.begin(), clients.begin() + 400);
  const auto start = steady_clock::now();
  bool served = false;
  while (!served && steady_clock::now() - start < std::chrono::seconds(5)) {
    RawClient client(server.port());
    client.send(kEcho);
    served = client.read_answer(false, milliseconds(500)).status == 200;
  }
  EXPECT_TRUE(served);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(Scale, WithoutDescriptorsItShedsAndRecovers) { starve(100'000); }
TEST(Scale, ItsOwnMaximumLeavesDescriptors) { starve(0); }

}  // namespace
}  // namespace kvern::net

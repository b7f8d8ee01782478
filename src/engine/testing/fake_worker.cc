#include "engine/testing/fake_worker.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/check.h"

namespace kvern::engine::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

std::optional<Plan> standard_answer(const Asked& asked) {
  if (asked.path == "/health") return Plan{{http_answer(200, "")}};
  if (asked.path == "/version") return Plan{{http_answer(200, R"({"version":"0.32.0"})")}};
  if (asked.path == "/v1/models") {
    return Plan{
        {http_answer(200, R"({"object":"list","data":[{"id":"smol","object":"model","max_model_len":1024}]})")}};
  }
  return std::nullopt;
}

std::size_t content_length(const std::string& head) {
  const std::size_t at = head.find("content-length: ");
  if (at == std::string::npos) return 0;
  std::size_t length = 0;
  std::from_chars(head.data() + at + 16, head.data() + head.size(), length);
  return length;
}

}  // namespace

std::string http_answer(int status, std::string_view body, std::string_view content_type,
                        std::string_view more_headers) {
  return fmt::format("HTTP/1.1 {} X\r\ncontent-type: {}\r\n{}content-length: {}\r\n\r\n{}", status, content_type,
                     more_headers, body.size(), body);
}

std::string sse_head() {
  return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
}

std::string chunk(std::string_view bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

Plan sse_answer(const std::vector<std::string>& data) {
  Plan plan{{sse_head()}};
  for (const auto& each : data) plan.pieces.push_back(chunk("data: " + each + "\n\n"));
  plan.pieces.push_back(chunk("data: [DONE]\n\n") + std::string(kLastChunk));
  return plan;
}

struct FakeWorker::State {
  Answer answer;
  bool answers_all = false;
  int listener = -1;
  std::uint16_t port = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<int> open;
  std::vector<std::thread> threads;
  std::size_t asked = 0;
  std::size_t connections = 0;
  std::size_t hang_ups = 0;
  bool ended = false;

  void accept_all() {
    for (;;) {
      const int fd = ::accept(listener, nullptr, nullptr);
      const std::lock_guard lock(mutex);
      if (fd < 0 || ended) {
        if (fd >= 0) ::close(fd);
        return;
      }
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      open.insert(fd);
      threads.emplace_back([this, fd, number = connections++] { serve(fd, number); });
    }
  }

  void serve(int fd, std::size_t number) {
    std::string held;
    while (true) {
      const auto asked_for = read_request(fd, held, number);
      if (!asked_for) break;
      auto plan = answers_all ? std::nullopt : standard_answer(*asked_for);
      if (!plan) {
        {
          const std::lock_guard lock(mutex);
          ++asked;
        }
        plan = answer(*asked_for);
      }
      if (!play(fd, *plan)) break;
    }
    const std::lock_guard lock(mutex);
    open.erase(fd);
    ::close(fd);
  }

  static std::optional<Asked> read_request(int fd, std::string& held, std::size_t number) {
    Asked asked_for;
    asked_for.connection = number;
    std::size_t end = std::string::npos;
    while ((end = held.find("\r\n\r\n")) == std::string::npos) {
      if (!fill(fd, held)) return std::nullopt;
    }
    asked_for.head = held.substr(0, end + 4);
    held.erase(0, end + 4);
    const std::size_t length = content_length(asked_for.head);
    while (held.size() < length) {
      if (!fill(fd, held)) return std::nullopt;
    }
    asked_for.body = held.substr(0, length);
    held.erase(0, length);
    const std::size_t space = asked_for.head.find(' ');
    asked_for.method = asked_for.head.substr(0, space);
    asked_for.path = asked_for.head.substr(space + 1, asked_for.head.find(' ', space + 1) - space - 1);
    return asked_for;
  }

  static bool fill(int fd, std::string& held) {
    char buffer[16384];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    held.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  /// False when the connection is over.
  bool play(int fd, const Plan& plan) {
    for (const auto& piece : plan.pieces) {
      std::string_view rest = piece;
      while (!rest.empty()) {
        const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent <= 0) {
          hung_up();
          return false;
        }
        rest.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    switch (plan.then) {
      case Plan::Then::kKeep: return true;
      case Plan::Then::kClose: return false;
      case Plan::Then::kReset: {
        const linger now{1, 0};
        ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        return false;
      }
      case Plan::Then::kMurmur: {
        const std::string comment = chunk(": at work\n\n");
        for (pollfd client{fd, POLLIN, 0}; ::poll(&client, 1, 5) == 0;) {
          if (::send(fd, comment.data(), comment.size(), MSG_NOSIGNAL) <= 0) break;
        }
        break;
      }
      case Plan::Then::kHang: break;
    }
    std::string ignored;
    while (fill(fd, ignored)) {
    }
    hung_up();
    return false;
  }

  void hung_up() {
    const std::lock_guard lock(mutex);
    ++hang_ups;
    changed.notify_all();
  }
};

FakeWorker::FakeWorker(Answer answer, bool answers_all, std::uint16_t port) : state_(std::make_shared<State>()) {
  state_->answer = std::move(answer);
  state_->answers_all = answers_all;
  state_->listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(state_->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  KV_CHECK(::bind(state_->listener, any, size) == 0 && ::listen(state_->listener, 128) == 0);
  KV_CHECK(::getsockname(state_->listener, any, &size) == 0);
  state_->port = ntohs(address.sin_port);
  const std::lock_guard lock(state_->mutex);
  state_->threads.emplace_back([state = state_.get()] { state->accept_all(); });
}

FakeWorker::~FakeWorker() { die(); }

void FakeWorker::die() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ended) return;
    state_->ended = true;
    ::shutdown(state_->listener, SHUT_RDWR);
    for (const int fd : state_->open) ::shutdown(fd, SHUT_RDWR);
  }
  // The acceptor adds no thread after `ended`.
  for (;;) {
    {
      const std::lock_guard lock(state_->mutex);
      threads.swap(state_->threads);
    }
    if (threads.empty()) break;
    for (auto& thread : threads) thread.join();
    threads.clear();
  }
  ::close(state_->listener);
}

std::uint16_t FakeWorker::port() const { return state_->port; }

std::size_t FakeWorker::asked() const {
  const std::lock_guard lock(state_->mutex);
  return state_->asked;
}

std::size_t FakeWorker::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connections;
}

bool FakeWorker::wait_hang_ups(std::size_t count) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, kPatience, [&] { return state_->hang_ups >= count; });
}

}  // namespace kvern::engine::testing

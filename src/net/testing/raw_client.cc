#include "net/testing/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>

#include "net/headers.h"

namespace kvern::net::testing {
namespace {

using std::chrono::steady_clock;

int left_ms(steady_clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

std::string_view field(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    const std::size_t colon = line.find(": ");
    if (colon != std::string_view::npos && equal_ignoring_case(line.substr(0, colon), name)) {
      return line.substr(colon + 2);
    }
    if (end == std::string_view::npos) break;
    head.remove_prefix(end + 2);
  }
  return {};
}

std::size_t number(std::string_view text, int base) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

RawClient::RawClient(std::uint16_t port, int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) {
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket_.reset();
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::size_t RawClient::send_some(std::string_view bytes) {
  std::size_t total = 0;
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    total += static_cast<std::size_t>(sent);
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return total;
}

void RawClient::half_close() { shutdown_send(socket_.get()); }

bool RawClient::fill(steady_clock::time_point until) {
  if (closed_ || !socket_.valid()) return false;
  pollfd ready{socket_.get(), POLLIN, 0};
  if (::poll(&ready, 1, left_ms(until)) <= 0) return false;
  std::array<char, 64U << 10U> buffer{};
  std::size_t received = 0;
  if (receive(socket_.get(), buffer.data(), buffer.size(), received) != IoStatus::kOk) {
    closed_ = true;
    return false;
  }
  held_.append(buffer.data(), received);
  return true;
}

std::string RawClient::read_until(std::string_view text, std::chrono::milliseconds within) {
  const auto until = steady_clock::now() + within;
  while (held_.find(text) == std::string::npos && fill(until)) {
  }
  return held_;
}

std::string RawClient::read_all(std::chrono::milliseconds within) {
  const auto until = steady_clock::now() + within;
  while (fill(until)) {
  }
  return std::exchange(held_, {});
}

Answer RawClient::read_answer(bool head_only, std::chrono::milliseconds within) {
  const auto until = steady_clock::now() + within;
  Answer answer;
  std::size_t end = std::string::npos;
  while ((end = held_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill(until)) return answer;
  }
  answer.head = held_.substr(0, end);
  held_.erase(0, end + 4);
  answer.status = static_cast<int>(number(std::string_view(answer.head).substr(9, 3), 10));
  const auto take = [&](std::size_t count) {
    while (held_.size() < count) {
      if (!fill(until)) return false;
    }
    answer.body.append(held_, 0, count);
    held_.erase(0, count);
    return true;
  };
  if (head_only || answer.status < 200 || answer.status == 204 || answer.status == 304) {
    answer.complete = true;
  } else if (field(answer.head, "transfer-encoding") == "chunked") {
    for (;;) {
      while ((end = held_.find("\r\n")) == std::string::npos) {
        if (!fill(until)) return answer;
      }
      const std::size_t size = number(std::string_view(held_).substr(0, end), 16);
      held_.erase(0, end + 2);
      if (!take(size)) return answer;
      while (held_.size() < 2) {
        if (!fill(until)) return answer;
      }
      held_.erase(0, 2);
      if (size == 0) break;
    }
    answer.complete = true;
  } else if (const auto length = field(answer.head, "content-length"); !length.empty()) {
    answer.complete = take(number(length, 10));
  } else {
    while (fill(until)) {
    }
    answer.body = std::exchange(held_, {});
    answer.complete = closed_;
  }
  return answer;
}

}  // namespace kvern::net::testing

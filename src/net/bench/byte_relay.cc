#include "net/bench/byte_relay.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "net/bench/loopback.h"
#include "net/socket.h"

namespace kvern::net {
namespace {

constexpr std::chrono::milliseconds kSilentMax{60'000};

class Relay {
 public:
  Relay(UniqueFd listener, std::uint16_t origin)
      : listener_(std::move(listener)), origin_(origin), poller_(epoll_create1(EPOLL_CLOEXEC)), buffer_(64U << 10U) {
    watch(listener_.get());
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 512> ready{};
    for (;;) {
      const int count = epoll_wait(poller_.get(), ready.data(), static_cast<int>(ready.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = ready[static_cast<std::size_t>(i)].data.fd;
        if (fd == listener_.get()) {
          accept_one();
        } else {
          pass_on(fd);
        }
      }
    }
  }

 private:
  struct End {
    UniqueFd socket;
    int peer = -1;
  };

  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void accept_one() {
    UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd server = connect_loopback(origin_);
    if (!client.valid() || !server.valid()) return;
    const int a = client.get();
    const int b = server.get();
    for (const int fd : {a, b}) {
      tune_connection(fd, kSilentMax);
      watch(fd);
    }
    ends_.resize(std::max(ends_.size(), static_cast<std::size_t>(std::max(a, b)) + 1));
    end(a) = {std::move(client), b};
    end(b) = {std::move(server), a};
  }

  End& end(int fd) { return ends_[static_cast<std::size_t>(fd)]; }

  void pass_on(int from) {
    const int to = end(from).peer;
    if (to < 0) return;  // closed earlier in this turn
    const ssize_t size = recv(from, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    // A blocking send: the peers of a benchmark read.
    if (size > 0 && send(to, buffer_.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) == size) return;
    end(from) = {};
    end(to) = {};
  }

  UniqueFd listener_;
  const std::uint16_t origin_;
  UniqueFd poller_;
  std::vector<char> buffer_;
  std::vector<End> ends_;  // by descriptor
};

}  // namespace

Error run_byte_relay(std::uint16_t origin, const std::function<void(std::uint16_t port)>& listening) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, size) != 0 || listen(listener.get(), 4096) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    return fail(ErrorCode::kUnavailable, "the relay finds no port to listen on");
  }
  listening(ntohs(address.sin_port));
  Relay(std::move(listener), origin).run();
}

}  // namespace kvern::net

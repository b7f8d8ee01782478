#include "net/hangup_watch.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace kvern::net {

HangupWatch::HangupWatch() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid()) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

bool HangupWatch::add(int fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLRDHUP | EPOLLET;  // EPOLLERR and EPOLLHUP always come
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void HangupWatch::remove(int fd) { static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr)); }

void HangupWatch::collect(const std::function<void(std::uint64_t, Hangup)>& gone) {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) {
      const auto& event = events.at(static_cast<std::size_t>(i));
      gone(event.data.u64, (event.events & (EPOLLERR | EPOLLHUP)) != 0 ? Hangup::kFull : Hangup::kHalf);
    }
    if (static_cast<std::size_t>(count) < events.size()) return;
  }
}

}  // namespace kvern::net

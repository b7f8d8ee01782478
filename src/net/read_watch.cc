#include "net/read_watch.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace kvern::net {

using boost::asio::posix::stream_descriptor;

std::shared_ptr<ReadWatch> ReadWatch::create(boost::asio::io_context& io) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return std::shared_ptr<ReadWatch>(new ReadWatch(io, epoll));
}

ReadWatch::ReadWatch(boost::asio::io_context& io, int epoll) : epoll_(io, epoll) {}

ReadWatch::~ReadWatch() = default;

bool ReadWatch::add(int fd, std::uint64_t id, Reader& reader) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
  readers_.emplace(id, &reader);
  wait();
  return true;
}

void ReadWatch::remove(int fd, std::uint64_t id) {
  if (readers_.erase(id) == 0) return;
  static_cast<void>(::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, fd, nullptr));
}

void ReadWatch::stop() {
  readers_.clear();
  boost::system::error_code ignored;
  [[maybe_unused]] const auto closed = epoll_.close(ignored);
}

void ReadWatch::wait() {
  if (waiting_ || !epoll_.is_open() || readers_.empty()) return;
  waiting_ = true;
  epoll_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waiting_ = false;
    if (error) return;
    self->collect();
    self->wait();
  });
}

void ReadWatch::collect() {
  if (!epoll_.is_open()) return;
  // One look a turn: what is still readable afterwards comes with the next.
  std::array<epoll_event, 512> ready{};
  const int count = ::epoll_wait(epoll_.native_handle(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = ready.at(static_cast<std::size_t>(i)).data.u64;  // a copy: the event is packed
    const auto found = readers_.find(id);
    if (found != readers_.end()) found->second->on_readable();
  }
}

}  // namespace kvern::net

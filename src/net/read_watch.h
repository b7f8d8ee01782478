// Tells which of many sockets have something to read. A nested epoll set, level triggered: a socket is registered once,
// where asking the loop anew before each read costs a system call and a handler per event of a stream. All that are
// ready in a turn are served in one go. Used on its loop only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace kvern::net {

class ReadWatch : public std::enable_shared_from_this<ReadWatch> {
 public:
  /// Who reads. It must read or remove itself when called, else it is called again at once. It may remove itself or
  /// others meanwhile, and need not outlive its removal.
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual void on_readable() = 0;
  };

  /// Throws std::system_error when the kernel refuses.
  static std::shared_ptr<ReadWatch> create(boost::asio::io_context& io);
  ~ReadWatch();

  /// Watches a socket under an id of the caller's; false when the kernel refuses.
  bool add(int fd, std::uint64_t id, Reader& reader);
  /// Before the socket is closed. No effect on one that is not watched.
  void remove(int fd, std::uint64_t id);
  /// Ends it; what still waits for the kernel lets go.
  void stop();

 private:
  ReadWatch(boost::asio::io_context& io, int epoll);
  void wait();
  void collect();

  boost::asio::posix::stream_descriptor epoll_;
  std::unordered_map<std::uint64_t, Reader*> readers_;
  bool waiting_ = false;
};

}  // namespace kvern::net

// A client that reads the events of a background response, from any number on, as fast as it likes: what it has not
// taken stays in the log, not in its connection. When it hangs up the response goes on.
// Lives on the loop of its exchange.
#pragma once

#include <functional>
#include <memory>

#include "app/background_run.h"
#include "net/http_server.h"

namespace kvern::app {

class Follower : public std::enable_shared_from_this<Follower> {
 public:
  /// `on_over` is called once, with the status for the books, and may let go of this.
  Follower(RequestId id, std::shared_ptr<net::Exchange> exchange, std::shared_ptr<BackgroundRun> run,
           std::uint64_t from, std::function<void(int status)> on_over);

  /// Sends the head and what there is. `notify`, called on any thread, is to bring pull() to this loop.
  void begin(net::Headers headers, std::function<void()> notify);
  void pull();

 private:
  void pull_later();
  void over(int status);

  const RequestId id_;
  const std::shared_ptr<net::Exchange> exchange_;
  const std::shared_ptr<BackgroundRun> run_;
  std::uint64_t next_;
  bool later_ = false;                // a look at how far the client is comes by itself
  std::function<void(int)> on_over_;  // empty: it is over
};

}  // namespace kvern::app

// An event loop on a thread of its own: the Executor of production. One per core; a connection and its request live and
// die on one. Work posted in one turn runs before the loop waits again; `after_turn` work runs once at its end, so that
// everything that arrived in a turn leaves in one write per stream.
#pragma once

#include <functional>
#include <memory>

#include "base/executor.h"

namespace kvern::net {

class Loop : public Executor {
 public:
  /// Starts the thread. `clock` outlives the loop.
  static std::unique_ptr<Loop> create(const Clock& clock);
  /// Runs `work` at the end of this turn of the loop; only from the loop's own thread.
  virtual void after_turn(std::function<void()> work) = 0;
  /// Ends the loop and joins its thread; what is still posted is dropped. Not from the loop itself.
  virtual void stop() = 0;
  /// The boost::asio::io_context*, for net's own sources.
  virtual void* native() = 0;
};

}  // namespace kvern::net

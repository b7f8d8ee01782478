// An event loop on a thread of its own: the Executor of production. One per core; a connection and its request live and
// die on one. A *turn* is what the loop finds ready between two looks at the kernel. `after_turn` work runs once, after
// everything that was posted when it was asked for and before what a later look brings, so that all that arrived in a
// turn leaves in one write per stream. Sustained load cannot starve it.
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
  /// The calling thread is the loop's own.
  virtual bool is_current() const = 0;
  /// Runs `work` on the loop and waits for it: at once when called on the loop itself, and on the caller's thread when
  /// the loop has stopped. True if the loop ran it. For shutdown and tests, never in the path of a request.
  virtual bool run_and_wait(std::function<void()> work) = 0;
  /// Ends the loop and joins its thread; what is still posted is dropped. Not from the loop itself.
  virtual void stop() = 0;
  /// The boost::asio::io_context*, for net's own sources.
  virtual void* native() = 0;
};

}  // namespace kvern::net

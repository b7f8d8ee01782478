// Where work runs. A request lives and dies on one executor, so what it owns needs no lock. net::Loop is the one of
// production; tests and the simulator bring their own, so the same code runs in virtual time.
#pragma once

#include <functional>

#include "base/clock.h"

namespace kvern {

class Executor {
 public:
  virtual ~Executor() = default;
  /// Runs `work` soon on this executor, in the order posted. Thread-safe.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` on this executor once `delay` has passed. It cannot be taken back: hold a weak_ptr in it. Thread-safe.
  virtual void post_after(Duration delay, std::function<void()> work) = 0;
  virtual const Clock& clock() const = 0;
};

}  // namespace kvern

// One request as its client sees it, and who watches.
#pragma once

#include <cstdint>
#include <memory>

#include "ir/event.h"
#include "ir/request.h"
#include "pipeline/dispatcher.h"

namespace kvern::sim {

struct Call {
  std::shared_ptr<const ir::Request> request;
  /// Begun when every fault was long over: it must end well.
  bool calm = false;
  std::weak_ptr<const pipeline::EventReceiver> receiver;

  RequestId id() const { return request->id; }
};

/// Called in the order things happen at the client. Arguments are borrowed for the call.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void on_started(const Call& call) = 0;
  /// `choice` is below the request's choices; each has a stream of its own.
  virtual void on_event(const Call& call, std::uint32_t choice, const ir::Event& event) = 0;
  /// The client hangs up: it is owed nothing more, and must get nothing more.
  virtual void on_gone(const Call& call) = 0;
};

}  // namespace kvern::sim

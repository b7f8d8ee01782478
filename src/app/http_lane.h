// What belongs to one loop of HttpApi; used only there. For HttpApi's own sources.
#pragma once

#include <memory>
#include <unordered_map>

#include "app/follower.h"
#include "app/http_api.h"

namespace kvern::app {

struct HttpApi::Lane : std::enable_shared_from_this<Lane> {
  net::Loop* loop = nullptr;
  std::shared_ptr<pipeline::Dispatcher> dispatcher;
  std::unordered_map<RequestId, Context> tokenizing;  // away on the pool
  std::unordered_map<RequestId, Context> at_store;    // wait for the store of responses
  std::unordered_map<RequestId, std::weak_ptr<Answer>> answers;
  std::unordered_map<RequestId, std::shared_ptr<Follower>> followers;
  /// Lets answers see the time pass, for as long as there are any: a timer for all, since each costs half a kilobyte.
  void keep_ticking();
  bool ticking = false;
};

/// What requests get from SIGTERM on.
Error draining_error();

}  // namespace kvern::app

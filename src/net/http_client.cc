#include "net/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "net/client_connection.h"

namespace kvern::net {
namespace {

constexpr std::size_t kScratchBytes = 64U << 10U;

class PooledClient final : public Client, public ClientConnectionOwner {
 public:
  PooledClient(Loop& loop, std::size_t idle_connections_max)
      : loop_(loop), idle_connections_max_(idle_connections_max), scratch_(kScratchBytes, '\0') {}

  ~PooledClient() override {
    for (auto& [handle, call] : calls_) {
      if (call.connection) call.connection->close();
    }
    for (auto& rest : resting_) rest.connection->close();
    if (reads_) reads_->stop();
  }

  std::uint64_t send(ClientRequest request, std::shared_ptr<ClientCallbacks> callbacks) override {
    const std::uint64_t handle = next_handle_++;
    Call& call = calls_[handle];
    call.request = std::move(request);
    call.callbacks = std::move(callbacks);
    call.pool = fmt::format("{}:{}", call.request.host, call.request.port);
    begin(handle, call, true);
    return handle;
  }

  void cancel(std::uint64_t handle) override {
    const auto found = calls_.find(handle);
    if (found == calls_.end()) return;
    // The callbacks may be running: they stay until the stack is unwound.
    auto call = std::make_shared<Call>(std::move(found->second));
    calls_.erase(found);
    if (call->connection) call->connection->close();
    loop_.post([call] {});
  }

  // From the connections ---------------------------------------------------------------------------------------------

  void on_complete(std::uint64_t handle, bool reusable) override {
    Call call = take(handle);
    if (reusable) put_to_rest(call);
    call.callbacks->on_end({});
  }

  void on_failure(std::uint64_t handle, Error error, bool untouched) override {
    const auto found = calls_.find(handle);
    if (untouched && found->second.from_pool && error.code != ErrorCode::kTimeout) {
      begin(handle, found->second, false);
      return;
    }
    const Call call = take(handle);
    call.callbacks->on_end(std::move(error));
  }

  // A long prompt need not be kept as long as its answer takes.
  void on_answering(std::uint64_t handle) override {
    auto& request = calls_.at(handle).request;
    request.body = std::string();
    request.headers = Headers();
  }

  void on_rest_ended(std::uint64_t id) override {
    std::erase_if(resting_, [id](const Rest& rest) { return rest.connection->id() == id; });
  }

  std::string& scratch() override { return scratch_; }
  ReadWatch& reads() override {
    if (!reads_) reads_ = ReadWatch::create(*static_cast<boost::asio::io_context*>(loop_.native()));
    return *reads_;
  }

 private:
  struct Call {
    ClientRequest request;
    std::shared_ptr<ClientCallbacks> callbacks;
    std::string pool;
    std::shared_ptr<ClientConnection> connection;
    bool from_pool = false;
  };
  struct Rest {
    std::string pool;
    std::shared_ptr<ClientConnection> connection;
  };

  void begin(std::uint64_t handle, Call& call, bool may_reuse) {
    call.from_pool = false;
    while (may_reuse) {
      // The one that rested last: the others get the chance to be closed by their worker.
      const auto found =
          std::find_if(resting_.rbegin(), resting_.rend(), [&](const Rest& rest) { return rest.pool == call.pool; });
      if (found == resting_.rend()) break;
      call.connection = std::move(found->connection);
      resting_.erase(std::next(found).base());
      if (call.connection->wake()) {
        call.from_pool = true;
        return call.connection->carry(handle, call.request, *call.callbacks);
      }
      call.connection->close();
    }
    call.connection = std::make_shared<ClientConnection>(loop_, *this, next_id_++);
    call.connection->connect(handle, call.request, *call.callbacks);
  }

  Call take(std::uint64_t handle) {
    const auto found = calls_.find(handle);
    Call call = std::move(found->second);
    calls_.erase(found);
    return call;
  }

  void put_to_rest(Call& call) {
    if (idle_connections_max_ == 0) return call.connection->close();
    if (resting_.size() >= idle_connections_max_) {
      resting_.front().connection->close();
      resting_.pop_front();
    }
    call.connection->rest();
    resting_.push_back({call.pool, std::move(call.connection)});
  }

  Loop& loop_;
  const std::size_t idle_connections_max_;
  std::shared_ptr<ReadWatch> reads_;  // made on the loop
  std::string scratch_;
  std::unordered_map<std::uint64_t, Call> calls_;  // node-based: requests stay put while connections read them
  std::deque<Rest> resting_;                       // oldest first
  std::uint64_t next_handle_ = 1;
  std::uint64_t next_id_ = 1;
};

}  // namespace

std::unique_ptr<Client> Client::create(Loop& loop, std::size_t idle_connections_max) {
  return std::make_unique<PooledClient>(loop, idle_connections_max);
}

}  // namespace kvern::net

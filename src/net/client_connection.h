// One connection to a worker: connects, carries one exchange at a time, rests in the pool between. Lives on the
// client's loop.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_client.h"
#include "net/read_watch.h"

namespace kvern::net {

/// What a connection reports to the client that owns it. Called on the loop; a connection reports nothing after it was
/// closed.
class ClientConnectionOwner {
 public:
  virtual ~ClientConnectionOwner() = default;
  /// The answer is complete; `reusable` when nothing of it, nor anything else, can still come.
  virtual void on_complete(std::uint64_t handle, bool reusable) = 0;
  /// The exchange failed; `untouched` when no byte of an answer had come. The connection is closed.
  virtual void on_failure(std::uint64_t handle, Error error, bool untouched) = 0;
  /// All was sent and the answer has begun: the body will not be sent again.
  virtual void on_answering(std::uint64_t handle) = 0;
  /// A resting connection was closed by its worker, or spoke unasked.
  virtual void on_rest_ended(std::uint64_t id) = 0;
  virtual std::string& scratch() = 0;
  virtual ReadWatch& reads() = 0;
};

class ClientConnection final : public ReadWatch::Reader, public std::enable_shared_from_this<ClientConnection> {
 public:
  ClientConnection(Loop& loop, ClientConnectionOwner& owner, std::uint64_t id);
  ~ClientConnection() override;

  std::uint64_t id() const { return id_; }
  /// Connects and then carries the request. `request` and `callbacks` live until the exchange ends.
  void connect(std::uint64_t handle, const ClientRequest& request, ClientCallbacks& callbacks);
  /// Carries the next request over the connection that is there.
  void carry(std::uint64_t handle, const ClientRequest& request, ClientCallbacks& callbacks);
  /// Begins to rest; ends it (false: meanwhile something came, or it broke).
  void rest();
  bool wake();
  /// Closes; nothing is reported afterwards.
  void close();
  void on_readable() override;

 private:
  void connect_to(const boost::asio::ip::tcp::resolver::results_type& endpoints);
  void begin();
  void send_some();
  void deliver(std::string_view bytes);
  void complete(bool surplus);
  void fail(ErrorCode code, const char* message);
  void set_deadline(Duration within, const char* message);
  void wait_timer();

  Loop& loop_;
  ClientConnectionOwner* owner_;  // null once closed
  const std::uint64_t id_;
  std::shared_ptr<boost::asio::ip::tcp::socket> socket_;  // null once closed; a connect under way holds it too
  std::unique_ptr<boost::asio::ip::tcp::resolver> resolver_;
  std::unique_ptr<boost::asio::steady_timer> timer_;

  // The exchange under way.
  std::uint64_t handle_ = 0;
  const ClientRequest* request_ = nullptr;
  ClientCallbacks* callbacks_ = nullptr;
  std::optional<ResponseReader> reader_;
  std::string head_;
  std::size_t sent_ = 0;
  bool sent_all_ = false;
  bool answered_ = false;    // a byte has come
  std::uint32_t reads_ = 0;  // on this connection

  TimePoint deadline_ = TimePoint::max();
  const char* deadline_message_ = "";
  TimePoint timer_at_ = TimePoint::max();
  bool resting_ = false;
};

}  // namespace kvern::net

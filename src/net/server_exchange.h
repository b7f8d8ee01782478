// The Exchange a handler gets: a thin handle to its connection that survives it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "net/connection.h"

namespace kvern::net {

class ServerExchange final : public Exchange {
 public:
  explicit ServerExchange(std::shared_ptr<Connection> connection)
      : loop_(connection->loop()), connection_(std::move(connection)) {}
  /// Dropped without an answer: the client must not wait for ever.
  ~ServerExchange() override {
    if (connection_) std::exchange(connection_, nullptr)->cut(Connection::Tell::kNot);
  }

  Loop& loop() override { return loop_; }
  void respond(Response response) override {
    if (auto connection = ended()) connection->respond(std::move(response));
  }
  void start(int status, Headers headers) override {
    if (connection_) connection_->start_stream(status, headers);
  }
  void write(std::string_view bytes) override {
    if (connection_) connection_->write(bytes);
  }
  void finish() override {
    if (auto connection = ended()) connection->finish();
  }
  void abort() override {
    if (auto connection = ended()) connection->cut(Connection::Tell::kNot);
    gone_ = true;
  }
  bool gone() const override { return gone_; }
  bool behind() const override { return connection_ && connection_->behind(); }
  void on_gone(std::function<void()> callback) override {
    if (gone_) {
      if (callback) loop_.post(std::move(callback));
    } else if (connection_) {
      on_gone_ = std::move(callback);
    }
  }

  /// The client is gone: lets go of the connection and hands out the callback.
  std::function<void()> take_gone() {
    gone_ = true;
    connection_ = nullptr;
    return std::exchange(on_gone_, nullptr);
  }
  bool active() const { return connection_ != nullptr; }

 private:
  std::shared_ptr<Connection> ended() {
    on_gone_ = nullptr;
    return std::exchange(connection_, nullptr);
  }

  Loop& loop_;
  std::shared_ptr<Connection> connection_;  // null when answered or gone
  std::function<void()> on_gone_;
  bool gone_ = false;
};

}  // namespace kvern::net

#include "engine/vllm/fetch.h"

#include <utility>

namespace kvern::engine {
namespace {

class Gather final : public net::ClientCallbacks {
 public:
  explicit Gather(std::function<void(Result<Fetched>)> done) : done_(std::move(done)) {}
  void on_head(const net::ClientHead& head) override {
    fetched_.status = head.status;
    fetched_.headers = head.headers;
  }
  void on_body(std::string_view bytes) override { fetched_.body += bytes; }
  void on_end(Result<void> result) override {
    if (!result) return done_(result.error());
    done_(std::move(fetched_));
  }

 private:
  std::function<void(Result<Fetched>)> done_;
  Fetched fetched_;
};

}  // namespace

std::uint64_t fetch(net::Client& client, net::ClientRequest request, std::function<void(Result<Fetched>)> done) {
  return client.send(std::move(request), std::make_shared<Gather>(std::move(done)));
}

}  // namespace kvern::engine

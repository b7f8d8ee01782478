#include "net/bench/http_bench.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace kvern::net {
namespace {

double thread_cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double cpu_us_of(Loop& loop) {
  double us = 0;
  loop.run_and_wait([&] { us = thread_cpu_us(); });
  return us;
}

/// Counts up to a mark that the bench's thread waits for.
class Progress {
 public:
  void add(std::size_t count) {
    const std::lock_guard lock(mutex_);
    done_ += count;
    if (done_ >= mark_) changed_.notify_all();
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  /// False when something failed or nothing moves.
  bool wait_for(std::size_t mark) {
    std::unique_lock lock(mutex_);
    mark_ = mark;
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return failed_ || done_ >= mark_; }) && !failed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
  std::size_t mark_ = 0;
  bool failed_ = false;
};

/// Bodies are answered at once; a GET becomes a stream.
class BenchHandler final : public Handler {
 public:
  explicit BenchHandler(Progress& ready) : ready_(ready) {}
  std::optional<Response> admit(const RequestHead&) override { return std::nullopt; }
  void serve(Request request, std::shared_ptr<Exchange> exchange) override {
    if (request.head.has_body) {
      exchange->respond({200, {{"content-type", "application/json"}}, R"({"ok": true})"});
      return;
    }
    exchange->start(200, {{"content-type", "text/event-stream"}});
    streams.push_back(std::move(exchange));
    ready_.add(1);
  }
  Response refuse(int status, std::string_view, const RequestHead&) override { return {status, {}, {}}; }

  std::vector<std::shared_ptr<Exchange>> streams;  // the server loop's

 private:
  Progress& ready_;
};

class StreamReader final : public ClientCallbacks {
 public:
  explicit StreamReader(Progress& received) : received_(received) {}
  void on_head(const ClientHead&) override {}
  void on_body(std::string_view bytes) override { received_.add(bytes.size()); }
  void on_end(Result<void> result) override {
    if (!result.ok()) received_.fail();
  }

 private:
  Progress& received_;
};

/// Asks again as soon as it is answered, while there is something left to ask.
class Asker final : public ClientCallbacks, public std::enable_shared_from_this<Asker> {
 public:
  Asker(Client& client, const ClientRequest& request, std::size_t& left, Progress& answered)
      : client_(client), request_(request), left_(left), answered_(answered) {}
  void ask() {
    if (left_ == 0) return;
    --left_;
    client_.send(request_, shared_from_this());
  }
  void on_head(const ClientHead&) override {}
  void on_body(std::string_view) override {}
  void on_end(Result<void> result) override {
    if (!result.ok()) return answered_.fail();
    answered_.add(1);
    ask();
  }

 private:
  Client& client_;
  const ClientRequest& request_;
  std::size_t& left_;
  Progress& answered_;
};

/// A server and a client, each on a loop of its own.
class Rig {
 public:
  static Result<std::unique_ptr<Rig>> create(const HttpBenchOptions& options) {
    auto rig = std::make_unique<Rig>();
    auto listening = Server::listen({}, {rig->server_loop.get()}, rig->handler);
    if (!listening) return std::move(listening).error();
    rig->server = std::move(listening).value();
    rig->renew_client(options.streams);
    rig->request.host = "127.0.0.1";
    rig->request.port = rig->server->port();
    return rig;
  }
  ~Rig() {
    client_loop->run_and_wait([&] { client = nullptr; });
    if (server) server->stop();
    server_loop->run_and_wait([&] { handler.streams.clear(); });
  }
  /// Ends the client's requests without a callback.
  void renew_client(std::size_t idle_max) {
    client_loop->run_and_wait([&] { client = Client::create(*client_loop, idle_max); });
  }

  SystemClock clock;
  Progress ready;
  BenchHandler handler{ready};
  std::unique_ptr<Loop> server_loop = Loop::create(clock);
  std::unique_ptr<Loop> client_loop = Loop::create(clock);
  std::unique_ptr<Server> server;
  std::unique_ptr<Client> client;
  ClientRequest request;
};

bool run_streams(Rig& rig, const HttpBenchOptions& options, std::size_t events_a_turn, double& us_per_event) {
  Progress received;
  rig.client_loop->run_and_wait([&] {
    for (std::size_t i = 0; i < options.streams; ++i) {
      rig.client->send(rig.request, std::make_shared<StreamReader>(received));
    }
  });
  bool ok = rig.ready.wait_for(options.streams);
  const std::string event(options.event_bytes, 'e');
  const std::size_t turns = options.events / events_a_turn;
  const double before = cpu_us_of(*rig.server_loop);
  for (std::size_t turn = 1; ok && turn <= turns; ++turn) {
    rig.server_loop->post([&] {
      for (auto& stream : rig.handler.streams) {
        for (std::size_t i = 0; i < events_a_turn; ++i) stream->write(event);
      }
    });
    // All of a turn is read before the next begins: so no two turns share a write.
    ok = received.wait_for(turn * events_a_turn * options.streams * event.size());
  }
  const double spent = cpu_us_of(*rig.server_loop) - before;
  us_per_event = spent / static_cast<double>(std::max<std::size_t>(1, turns * events_a_turn * options.streams));
  rig.renew_client(options.streams);  // the readers' progress goes out of scope
  return ok;
}

bool run_requests(Rig& rig, const HttpBenchOptions& options, double& us_per_request) {
  ClientRequest request = rig.request;
  request.method = "POST";
  request.body.assign(options.request_bytes, 'b');
  Progress answered;
  std::size_t left = options.requests;
  const double before = cpu_us_of(*rig.server_loop);
  rig.client_loop->run_and_wait([&] {
    for (std::size_t i = 0; i < options.streams; ++i) {
      std::make_shared<Asker>(*rig.client, request, left, answered)->ask();
    }
  });
  const bool ok = answered.wait_for(options.requests);
  const double spent = cpu_us_of(*rig.server_loop) - before;
  us_per_request = spent / static_cast<double>(std::max<std::size_t>(1, options.requests));
  rig.renew_client(options.streams);
  return ok;
}

}  // namespace

Result<HttpBenchResult> bench_http(const HttpBenchOptions& options) {
  HttpBenchResult result;
  result.streams = options.streams;
  result.events = options.streams * options.events;
  result.requests = options.requests;
  bool ok = true;
  for (const int part : {0, 1, 2}) {
    auto rig = Rig::create(options);
    if (!rig) return std::move(rig).error();
    switch (part) {
      case 0: ok = run_requests(**rig, options, result.us_per_request); break;
      case 1: ok = run_streams(**rig, options, 1, result.us_per_event); break;
      default: ok = run_streams(**rig, options, 8, result.us_per_event_eight_a_turn); break;
    }
    if (!ok) return fail(ErrorCode::kInternal, "the benchmark's client and server lost each other");
  }
  return result;
}

}  // namespace kvern::net

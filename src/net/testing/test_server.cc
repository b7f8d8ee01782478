#include "net/testing/test_server.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include "base/check.h"

namespace kvern::net::testing {
namespace {

Response text(int status, std::string body) { return {status, {{"content-type", "text/plain"}}, std::move(body)}; }

std::size_t number(const std::string& digits) { return std::strtoull(digits.c_str(), nullptr, 10); }

}  // namespace

std::optional<Response> SteeredHandler::admit(const RequestHead& head) {
  if (head.path == "/refuse") return text(401, "who are you");
  return std::nullopt;
}

void SteeredHandler::serve(Request request, std::shared_ptr<Exchange> exchange) {
  {
    const std::lock_guard lock(mutex_);
    ++served_;
    changed_.notify_all();
  }
  const RequestHead& head = request.head;
  if (head.path == "/echo") {
    exchange->respond(text(200, head.method + " " + head.target + " " + request.body));
  } else if (head.path == "/big") {
    exchange->respond(text(200, std::string(number(head.query), 'b')));
  } else if (head.path == "/empty") {
    exchange->respond({204, {}, {}});
  } else if (head.path == "/stream") {
    exchange->start(200, {{"content-type", "text/event-stream"}});
    for (std::size_t i = 0; i < number(head.query); ++i) exchange->write("data: " + std::to_string(i) + "\n\n");
    exchange->finish();
  } else if (head.path == "/hold") {
    exchange->on_gone([this] {
      const std::lock_guard lock(mutex_);
      ++gone_;
      changed_.notify_all();
    });
    const std::lock_guard lock(mutex_);
    held_.push_back(std::make_shared<Held>(Held{std::move(request), std::move(exchange)}));
    changed_.notify_all();
  } else if (head.path != "/drop") {
    exchange->respond(text(404, "no such path"));
  }
}

Response SteeredHandler::refuse(int status, std::string_view reason, const RequestHead& head) {
  return text(status, std::string(reason) + head.path);
}

std::shared_ptr<Held> SteeredHandler::wait_held(std::size_t count) {
  std::unique_lock lock(mutex_);
  KV_CHECK(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return held_.size() >= count; }));
  return held_.at(count - 1);
}

void SteeredHandler::forget() {
  std::vector<std::shared_ptr<Held>> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  for (auto& each : held) {
    Loop& loop = each->exchange->loop();
    loop.run_and_wait([&] { each->exchange = nullptr; });
  }
}

std::size_t SteeredHandler::served() const {
  const std::lock_guard lock(mutex_);
  return served_;
}

std::size_t SteeredHandler::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool SteeredHandler::wait_gone(std::size_t count, std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [&] { return gone_ >= count; });
}

TestServer::TestServer(const ServerOptions& options, std::size_t loops) {
  std::vector<Loop*> borrowed;
  borrowed.reserve(loops);
  for (std::size_t i = 0; i < loops; ++i) borrowed.push_back(loops_.emplace_back(Loop::create(clock_)).get());
  auto server = Server::listen(options, std::move(borrowed), handler_);
  KV_CHECK(server.ok());
  server_ = std::move(server).value();
}

TestServer::~TestServer() {
  server_->stop();
  handler_.forget();
}

void TestServer::on_loop(const std::shared_ptr<Held>& held, const std::function<void(Exchange&)>& use) {
  held->exchange->loop().run_and_wait([&] { use(*held->exchange); });
}

bool TestServer::wait_until(const std::function<bool()>& condition, std::chrono::milliseconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool TestServer::wait_open(std::uint32_t count, std::chrono::milliseconds within) {
  return wait_until([&] { return server_->stats().open == count; }, within);
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace kvern::net::testing

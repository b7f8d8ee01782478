// A loop and an exchange in a test's hands.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "net/http_server.h"
#include "net/loop.h"

namespace kvern::app {

/// A loop whose timers the test fires by moving the clock.
class ManualLoop final : public net::Loop {
 public:
  void post(std::function<void()> work) override { work(); }
  void post_after(Duration delay, std::function<void()> work) override {
    timers_.push_back({clock_.now() + delay, work});
  }
  void after_turn(std::function<void()> work) override { work(); }
  bool is_current() const override { return true; }
  bool run_and_wait(std::function<void()> work) override {
    work();
    return true;
  }
  void stop() override {}
  void* native() override { return nullptr; }
  const Clock& clock() const override { return clock_; }

  void pass(Duration time) {
    clock_.advance(time);
    auto due = std::move(timers_);
    timers_.clear();
    for (auto& timer : due) {
      if (timer.first <= clock_.now()) {
        timer.second();
      } else {
        timers_.push_back(std::move(timer));
      }
    }
  }

 private:
  ManualClock clock_;
  std::deque<std::pair<TimePoint, std::function<void()>>> timers_;
};

/// Shows what would leave on the wire.
class Wire final : public net::Exchange {
 public:
  explicit Wire(ManualLoop& loop) : loop_(loop) {}
  net::Loop& loop() override { return loop_; }
  void respond(net::Response response) override {
    status = response.status;
    bytes = response.body;
    headers = response.headers;
    finished = true;
  }
  void start(int code, net::Headers sent) override {
    status = code;
    headers = std::move(sent);
  }
  void write(std::string_view text) override { bytes += text; }
  void finish() override { finished = true; }
  void abort() override { aborted = true; }
  bool gone() const override { return false; }
  bool behind() const override { return full; }
  void on_gone(std::function<void()> callback) override { hang_up = std::move(callback); }

  int status = 0;
  net::Headers headers;
  std::string bytes;
  bool finished = false;
  bool aborted = false;
  bool full = false;  // the client takes nothing
  std::function<void()> hang_up;

 private:
  ManualLoop& loop_;
};

}  // namespace kvern::app

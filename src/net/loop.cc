#include "net/loop.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvern::net {
namespace {

namespace asio = boost::asio;

class AsioLoop final : public Loop {
 public:
  explicit AsioLoop(const Clock& clock) : clock_(clock), io_(1), work_(io_.get_executor()) {
    thread_ = std::thread([this] { run(); });
  }
  ~AsioLoop() override { stop(); }

  void post(std::function<void()> work) override { asio::post(io_, std::move(work)); }

  void post_after(Duration delay, std::function<void()> work) override {
    auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& error) {
      if (!error) work();
    });
  }

  const Clock& clock() const override { return clock_; }

  void after_turn(std::function<void()> work) override {
    after_turn_.push_back(std::move(work));
    if (after_turn_.size() > 1) return;  // the marker is in the queue
    asio::post(io_, [this] {
      // What this work asks for belongs to the next turn.
      std::vector<std::function<void()>> turn;
      turn.swap(after_turn_);
      for (auto& each : turn) each();
      turn.clear();
      if (after_turn_.empty()) after_turn_.swap(turn);  // keep the capacity
    });
  }

  bool is_current() const override { return std::this_thread::get_id() == thread_id_; }

  bool run_and_wait(std::function<void()> work) override {
    if (is_current()) {
      work();
      return true;
    }
    auto done = std::make_shared<bool>(false);
    auto taken = std::make_shared<bool>(false);
    asio::post(io_, [this, done, taken, &work] {
      {
        const std::lock_guard lock(mutex_);
        if (ended_) return;
        *taken = true;
      }
      work();
      const std::lock_guard lock(mutex_);
      *done = true;
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return *done || (ended_ && !*taken); });
    if (*done) return true;
    lock.unlock();
    work();
    return false;
  }

  void stop() override {
    if (!thread_.joinable()) return;
    KV_CHECK(std::this_thread::get_id() != thread_id_);
    io_.stop();
    thread_.join();
  }

  void* native() override { return &io_; }

 private:
  void run() {
    {
      const std::lock_guard lock(mutex_);
      thread_id_ = std::this_thread::get_id();
    }
    io_.run();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    thread_id_ = std::thread::id();
    changed_.notify_all();
  }

  const Clock& clock_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::function<void()>> after_turn_;  // the loop's own
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::atomic<std::thread::id> thread_id_{};  // while it runs
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Loop> Loop::create(const Clock& clock) { return std::make_unique<AsioLoop>(clock); }

}  // namespace kvern::net

#include "net/loop.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvern::net {
namespace {

namespace asio = boost::asio;

/// Rounds in one go, before sockets have their turn again.
constexpr int kRoundsMax = 8;

class AsioLoop final : public Loop {
 public:
  explicit AsioLoop(const Clock& clock) : clock_(clock), io_(1), guard_(io_.get_executor()) {
    thread_ = std::thread([this] { run(); });
  }
  ~AsioLoop() override {
    stop();
    drop();
  }

  void post(std::function<void()> work) override {
    if (is_current()) {
      posted_.push_back(std::move(work));
      return run_round_soon();
    }
    const std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(std::move(work));
    if (!std::exchange(inbox_told_, true)) asio::post(io_, [this] { take_inbox(); });
  }

  void post_after(Duration delay, std::function<void()> work) override {
    auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& error) {
      if (!error) work();
    });
  }

  const Clock& clock() const override { return clock_; }

  void after_turn(std::function<void()> work) override {
    after_turn_.push_back(std::move(work));
    run_round_soon();
  }

  bool is_current() const override { return std::this_thread::get_id() == thread_id_; }

  bool run_and_wait(std::function<void()> work) override {
    if (is_current()) {
      work();
      return true;
    }
    auto done = std::make_shared<bool>(false);
    auto taken = std::make_shared<bool>(false);
    post([this, done, taken, &work] {
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
  using Works = std::vector<std::function<void()>>;

  void run_round_soon() {
    if (!std::exchange(round_armed_, true)) asio::post(io_, [this] { run_rounds(); });
  }

  /// Lets go of what is left, while posting is still sound: what held it may post again.
  void drop() {
    posted_.clear();
    after_turn_.clear();
    for (Works dropped;; dropped.clear()) {
      const std::lock_guard lock(inbox_mutex_);
      if (inbox_.empty()) return;
      dropped.swap(inbox_);
    }
  }

  void take_inbox() {
    Works inbox;
    {
      const std::lock_guard lock(inbox_mutex_);
      inbox.swap(inbox_);
      inbox_told_ = false;
    }
    if (posted_.empty()) {
      posted_.swap(inbox);
    } else {
      std::ranges::move(inbox, std::back_inserter(posted_));
    }
    // Now and not by way of the queue, which would look at the kernel first.
    run_rounds();
  }

  /// A round is what was posted before it, then the after-turn work asked for before it. What either brings is for the
  /// next; a few of them follow at once, so that what passes through several hands still leaves in the same turn.
  void run_rounds() {
    round_armed_ = true;
    for (int round = 0; round < kRoundsMax && !(posted_.empty() && after_turn_.empty()); ++round) {
      work_.swap(posted_);
      ends_.swap(after_turn_);
      for (auto* works : {&work_, &ends_}) {
        for (auto& each : *works) each();
        works->clear();
      }
    }
    round_armed_ = false;
    if (!posted_.empty() || !after_turn_.empty()) run_round_soon();
  }

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
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  // The loop's own.
  Works posted_;
  Works after_turn_;
  Works work_;  // of the round under way
  Works ends_;
  bool round_armed_ = false;
  std::mutex inbox_mutex_;
  Works inbox_;  // from other threads
  bool inbox_told_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::atomic<std::thread::id> thread_id_{};  // while it runs
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Loop> Loop::create(const Clock& clock) { return std::make_unique<AsioLoop>(clock); }

}  // namespace kvern::net

#include "net/read_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "net/socket.h"

namespace kvern::net {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    here = UniqueFd(ends[0]);
    there = UniqueFd(ends[1]);
  }
  void say(char c) const { EXPECT_EQ(::write(there.get(), &c, 1), 1); }
  std::string hear() const {
    char bytes[16];
    const ssize_t size = ::read(here.get(), bytes, sizeof bytes);
    return {bytes, static_cast<std::size_t>(size > 0 ? size : 0)};
  }
  UniqueFd here;
  UniqueFd there;
};

struct Ear final : ReadWatch::Reader {
  void on_readable() override {
    heard += pipe.hear();
    ++calls;
    if (then) then();
  }
  Pipe pipe;
  std::string heard;
  int calls = 0;
  std::function<void()> then;
};

class ReadWatchTest : public ::testing::Test {
 protected:
  ~ReadWatchTest() override {
    watch->stop();
    io.run();  // what waited lets go
  }
  void add(Ear& ear, std::uint64_t id) { ASSERT_TRUE(watch->add(ear.pipe.here.get(), id, ear)); }
  /// Until nothing more is ready.
  void poll() {
    io.restart();
    while (io.poll_one() > 0) {
    }
  }

  boost::asio::io_context io{1};
  std::shared_ptr<ReadWatch> watch = ReadWatch::create(io);
  Ear a, b;
};

TEST_F(ReadWatchTest, TellsEachOnceForWhatCame) {
  add(a, 1);
  add(b, 2);
  poll();
  EXPECT_EQ(a.calls + b.calls, 0);
  a.pipe.say('x');
  a.pipe.say('y');
  b.pipe.say('z');
  poll();
  EXPECT_EQ(a.heard, "xy");
  EXPECT_EQ(b.heard, "z");
  EXPECT_EQ(a.calls, 1);
  a.pipe.say('!');
  poll();
  EXPECT_EQ(a.heard, "xy!");
}

TEST_F(ReadWatchTest, TellsOfTheEnd) {
  add(a, 1);
  a.then = [this] { watch->remove(a.pipe.here.get(), 1); };
  a.pipe.there.reset();
  poll();
  EXPECT_EQ(a.calls, 1);
  EXPECT_EQ(a.heard, "");
}

TEST_F(ReadWatchTest, OneMayRemoveItselfAndOthersWhileCalled) {
  add(a, 1);
  add(b, 2);
  const auto remove_both = [this] {
    watch->remove(a.pipe.here.get(), 1);
    watch->remove(b.pipe.here.get(), 2);
  };
  a.then = b.then = remove_both;
  a.pipe.say('x');
  b.pipe.say('y');
  poll();
  EXPECT_EQ(a.calls + b.calls, 1) << "who came first took the other out";
  watch->remove(a.pipe.here.get(), 1);  // of no effect
  a.then = nullptr;
  a.pipe.say('z');
  add(a, 3);
  poll();
  EXPECT_EQ(a.heard.back(), 'z');
}

TEST_F(ReadWatchTest, NothingIsToldAfterStop) {
  add(a, 1);
  a.pipe.say('x');
  watch->stop();
  poll();
  EXPECT_EQ(a.calls, 0);
}

}  // namespace
}  // namespace kvern::net

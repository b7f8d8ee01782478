#include "app/store/sqlite_response_store.h"

#include <gtest/gtest.h>

#include <future>

#include "base/testing/temp_folder.h"
#include "net/loop.h"

namespace kvern::app {
namespace {

using pipeline::StoredResponse;

class SqliteResponseStoreTest : public ::testing::Test {
 protected:
  ~SqliteResponseStoreTest() override {
    store_.reset();
    loop_->stop();
  }
  void open(const StoreBounds& bounds = {}, const StoreQueueBounds& queue = {}) {
    store_.reset();
    auto tables = ResponseTables::open(folder_.path() + "/r.db", bounds);
    ASSERT_TRUE(tables.ok()) << tables.error().message;
    store_ = std::make_unique<SqliteResponseStore>(*std::move(tables), clock_, log_, metrics_, queue);
  }
  static StoredResponse response(std::uint64_t id, std::size_t bytes = 10) {
    return {RequestId{id}, "t", {}, false, "[]", std::string(bytes, 'a'), "", 0};
  }
  /// A callback, and what it is told.
  template <typename T>
  static std::pair<std::function<void(Result<T>)>, std::future<Result<T>>> answer() {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    return {[promise](Result<T> result) { promise->set_value(std::move(result)); }, promise->get_future()};
  }
  Result<void> put(StoredResponse one) {
    auto [done, told] = answer<void>();
    store_->put(std::move(one), *loop_, done);
    return told.get();
  }
  Result<StoredResponse> find(std::uint64_t id) {
    auto [done, told] = answer<StoredResponse>();
    store_->find("t", RequestId{id}, *loop_, done);
    return told.get();
  }

  const TempFolder folder_;
  SystemClock clock_;
  Log log_{LogLevel::kOff};
  Metrics metrics_;
  std::unique_ptr<net::Loop> loop_ = net::Loop::create(clock_);
  std::unique_ptr<SqliteResponseStore> store_;
};

TEST_F(SqliteResponseStoreTest, AnswersOnTheCallersLoop) {
  open();
  std::promise<bool> at_home;
  store_->put(response(1), *loop_,
              [&](const Result<void>& done) { at_home.set_value(done.ok() && loop_->is_current()); });
  EXPECT_TRUE(at_home.get_future().get());
  EXPECT_EQ(*find(1), response(1));
  EXPECT_EQ(find(2).error().code, ErrorCode::kNotFound);
  auto [done, told] = answer<void>();
  store_->erase("t", RequestId{1}, *loop_, done);
  EXPECT_TRUE(told.get().ok());
  EXPECT_FALSE(find(1).ok());
}

TEST_F(SqliteResponseStoreTest, WhatWaitsAtTheEndIsWritten) {
  open();
  for (std::uint64_t id = 1; id <= 500; ++id) store_->put(response(id, 1000), *loop_, [](const Result<void>&) {});
  open();
  for (std::uint64_t id = 1; id <= 500; ++id) ASSERT_TRUE(find(id).ok()) << id;
}

TEST_F(SqliteResponseStoreTest, BeyondItsQueueItRefusesAtOnce) {
  open({}, {.calls = 1000, .bytes = 5000});
  EXPECT_EQ(put(response(1, 6000)).error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(put(response(2, 4000)).ok());
  open({}, {.calls = 0, .bytes = 5000});
  const auto refused = find(2);
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(refused.error().retry_after.has_value());
}

TEST_F(SqliteResponseStoreTest, OneThatDoesNotFitHarmsNoOther) {
  open({.bytes_max = 1U << 20U});
  std::vector<std::future<Result<void>>> told;
  for (std::uint64_t id = 1; id <= 30; ++id) {
    auto [done, one] = answer<void>();
    told.push_back(std::move(one));
    store_->put(response(id, id == 7 ? 5'000'000 : 1000), *loop_, done);
  }
  for (std::uint64_t id = 1; id <= 30; ++id) {
    const auto result = told[id - 1].get();
    EXPECT_EQ(result.ok(), id != 7) << id;
    if (id == 7) {
      EXPECT_EQ(result.error().detail, "storage_failed");
    }
  }
  for (std::uint64_t id = 1; id <= 30; ++id) EXPECT_EQ(find(id).ok(), id != 7) << id;
}

}  // namespace
}  // namespace kvern::app

#include "engine/events/endpoint.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace kvern::engine::events {
namespace {

TEST(Endpoint, WhoBindsIsVllmsRule) {
  EXPECT_TRUE(binds_by_default("tcp://*:5557"));
  EXPECT_TRUE(binds_by_default("tcp://127.0.0.1:*"));
  EXPECT_TRUE(binds_by_default("tcp://[::1]:5557"));
  EXPECT_TRUE(binds_by_default("ipc:///tmp/events"));
  EXPECT_FALSE(binds_by_default("tcp://127.0.0.1:5557"));
  EXPECT_FALSE(binds_by_default("tcp://router:5557"));
}

TEST(Endpoint, WhatCanBe) {
  const struct {
    const char* endpoint;
    bool bind;
    bool connect;
  } cases[] = {
      {"tcp://127.0.0.1:5557", true, true},
      {"tcp://*:5557", true, false},
      {"tcp://127.0.0.1:*", true, false},
      {"tcp://[::1]:65535", true, true},
      {"tcp://worker-3.local:1", true, true},
      {"ipc:///tmp/events", true, true},
      {"", false, false},
      {"127.0.0.1:5557", false, false},
      {"http://127.0.0.1:5557", false, false},
      {"tcp://", false, false},
      {"tcp://:5557", false, false},
      {"tcp://127.0.0.1", false, false},
      {"tcp://127.0.0.1:", false, false},
      {"tcp://127.0.0.1:0", false, false},
      {"tcp://127.0.0.1:65536", false, false},
      {"tcp://127.0.0.1:55x", false, false},
      {"tcp://::1:5557", false, false},
      {"tcp://127.0.0.1 :5557", false, false},
      {"ipc://", false, false},
  };
  for (const auto& each : cases) {
    for (const bool bind : {true, false}) {
      const auto fits = check_endpoint(each.endpoint, bind, "events");
      EXPECT_EQ(fits.ok(), bind ? each.bind : each.connect) << each.endpoint;
      EXPECT_TRUE(fits.ok() || fits.error().param == "events");
    }
  }
}

TEST(Endpoint, WhatIsBeyondThisMachine) {
  EXPECT_FALSE(beyond_loopback("tcp://127.0.0.1:5557"));
  EXPECT_FALSE(beyond_loopback("tcp://localhost:5557"));
  EXPECT_FALSE(beyond_loopback("tcp://[::1]:5557"));
  EXPECT_FALSE(beyond_loopback("ipc:///tmp/events"));
  EXPECT_TRUE(beyond_loopback("tcp://*:5557"));
  EXPECT_TRUE(beyond_loopback("tcp://0.0.0.0:5557"));
  EXPECT_TRUE(beyond_loopback("tcp://10.0.0.3:5557"));
}

TEST(Endpoint, ErrorsSayWhatToDo) {
  EXPECT_EQ(endpoint_error(EADDRINUSE, "tcp://127.0.0.1:5557", true, "events").message,
            "events tcp://127.0.0.1:5557 is taken by another program: stop that, or choose another port");
  EXPECT_EQ(endpoint_error(ENODEV, "tcp://nowhere:5557", true, "replay").code, ErrorCode::kInvalidRequest);
}

}  // namespace
}  // namespace kvern::engine::events

#include "app/banner.h"

#include <gtest/gtest.h>

namespace kvern::app {
namespace {

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

LoadedModel some_model() {
  LoadedModel loaded;
  auto model = std::make_shared<pipeline::Model>();
  model->name = "m";
  loaded.model = std::move(model);
  loaded.file = "/m.gguf";
  return loaded;
}

TEST(Banner, WhatIsBoundToAllAddressesIsNamedAsItIsReached) {
  EXPECT_EQ(reachable_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(reachable_host("::1"), "::1");
  for (const char* all : {"0.0.0.0", "::"}) EXPECT_NE(reachable_host(all), all);
  for (const char* all : {"tcp://0.0.0.0:5557", "tcp://*:5557", "tcp://[::]:5557"}) {
    const std::string text = worker_banner(some_model(), {all, all, false}, "http://gpu-1:8000");
    EXPECT_TRUE(holds(text, "events: \"tcp://gpu-1:5557\", replay: \"tcp://gpu-1:5557\"")) << text;
    EXPECT_TRUE(holds(text, "url: \"http://gpu-1:8000\"")) << text;
  }
  const std::string text = worker_banner(some_model(), {"tcp://10.0.0.1:5557", "", true}, "http://[::1]:8000");
  EXPECT_TRUE(holds(text, "events: \"tcp://10.0.0.1:5557\", bind: true")) << text;
  EXPECT_TRUE(
      holds(worker_banner(some_model(), {"tcp://*:1", "", false}, "http://[::1]:8000"), "events: \"tcp://[::1]:1\""));
}

TEST(Banner, AWorkersModelIsShownAndNeverObeyed) {
  const std::vector<Workers::Line> lines{{"a", "vllm", "http://h:1", "m\x1b[2J'; rm \"x\"", 10, {}},
                                         {"b", "vllm", "http://h:2", "other", 20,
                                          "\xc2\x9b"
                                          "down"}};
  const std::string text = workers_banner(lines, "http://127.0.0.1:1", false);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x9b'), std::string::npos);
  EXPECT_TRUE(holds(text, "m\\x1b[2J'; rm \"x\", 10 tokens")) << text;
  EXPECT_TRUE(holds(text, "'{\"model\": \"m\\\\x1b[2J'\\''; rm \\\"x\\\"\", ")) << text;
  EXPECT_TRUE(holds(text, "claude --model 'm\\x1b[2J'\\''; rm \"x\"'\n")) << text;
}

}  // namespace
}  // namespace kvern::app

// Whatever a worker answers to a question or a request: never a fault, and errors in words of ours only.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engine/vllm/probe.h"
#include "engine/vllm/worker_address.h"
#include "engine/vllm/worker_error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvern;
  if (size < 2) return 0;
  const int status = 100 + data[0] * 2 + data[1] % 2;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto refusal = engine::read_refusal(status, {{"retry-after", std::string(body.substr(0, 20))}}, body);
  KV_CHECK(!refusal.error.message.empty() && refusal.error.message.size() < 200);
  KV_CHECK(refusal.error.retry_after.value_or(std::chrono::seconds(0)) <= std::chrono::seconds(300));
  KV_CHECK(refusal.type == engine::loggable_word(refusal.type));
  KV_CHECK(refusal.param == engine::loggable_word(refusal.param));
  const auto facts = engine::read_models(body, "m");
  if (facts) KV_CHECK(!facts->model.empty() && facts->max_model_len > 0);
  const auto url = engine::parse_worker_url(body);
  if (url) KV_CHECK(!url->host.empty() && url->port != 0 && (url->path.empty() || url->path.front() == '/'));
  return 0;
}

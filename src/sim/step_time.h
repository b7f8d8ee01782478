// How long a simulated engine's step takes. The curve is that of NVIDIA Dynamo's mocker (lib/mocker, default timing:
// vLLM on one GPU), in milliseconds: a polynomial of the new prompt tokens, one of how full the cache is while
// decoding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace kvern::sim {

inline constexpr double kPrefillBaseMs = 16.50142;
inline constexpr double kPrefillPerTokenMs = 1.518344e-02;
inline constexpr double kPrefillPerTokenSquaredMs = 4.209989e-07;
inline constexpr double kDecodeBaseMs = 5.74;
inline constexpr double kDecodeFullMs = 54.01;
inline constexpr double kDecodeFullSquaredMs = -25.74;
inline constexpr double kStepMinMs = 1.0;

/// `full` is the used share of the cache, 0 to 1.
inline Duration step_time(std::uint32_t prefill_tokens, std::uint32_t decode_tokens, double full) {
  const double prefill = prefill_tokens;
  double ms = 0;
  if (prefill_tokens > 0) {
    ms += kPrefillBaseMs + kPrefillPerTokenMs * prefill + kPrefillPerTokenSquaredMs * prefill * prefill;
  }
  if (decode_tokens > 0) ms += kDecodeBaseMs + kDecodeFullMs * full + kDecodeFullSquaredMs * full * full;
  const std::chrono::duration<double, std::milli> whole(std::max(kStepMinMs, ms));
  return std::chrono::duration_cast<Duration>(whole);
}

}  // namespace kvern::sim

// KV event batches to and from msgpack, as vLLM and SGLang put them on the wire (NVIDIA Dynamo's lib/kv-router/src/
// zmq_wire reads the same). docs/kv-events.md has the forms.
//
// decode takes every form at once: events as tuples or maps, the batch as array or map, tails left out, hashes signed,
// unsigned or bytes, tokens or bigram pairs; unknown keys and further elements are skipped. It reads bytes from
// outside: it never throws, never allocates by a claimed length, and its time and memory are linear in the input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/kv_event.h"

namespace kvern::engine::events {

/// Whose bytes encode() writes. What an engine wrote in its style decodes and encodes to the same bytes, except for
/// tuples that carry nils behind their last value.
enum class WireStyle : std::uint8_t {
  kVllmMaps,     // vLLM since events are maps (0.32): unsigned hashes, defaults left out
  kVllmTuples,   // vLLM before: tuples, the tail behind lora_name cut after its last value
  kSglangMaps,   // SGLang: maps, signed hashes
  kSglangTuples  // SGLang before: short tuples
};

/// `bytes_max` of what is decoded is the caller's to check.
struct Decoded {
  kv::KvEventBatch batch;
  std::uint32_t ignored = 0;  // events with the tag "Ignored"
  std::uint32_t unknown = 0;  // events with a tag not known here, skipped
};

/// kInvalidRequest when `payload` is not a batch; the message says where and why, in our own words.
Result<Decoded> decode(std::string_view payload);

/// Appends the batch to `out`. What a style has no place for is left out.
void encode(const kv::KvEventBatch& batch, WireStyle style, std::string& out);

}  // namespace kvern::engine::events

// The frames around a payload: [topic, sequence number, payload] as published, [empty, topic, sequence number, payload]
// or (SGLang, older vLLM) without the topic as replayed, [empty, sequence number] to ask for a replay. Numbers are 8
// bytes, big-endian. A replay ends with the number of all ones and an empty payload.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvern::engine::events {

inline constexpr std::uint64_t kEndOfReplay = ~std::uint64_t{0};

/// Views into the frames.
struct Message {
  std::string_view topic;
  std::uint64_t sequence = 0;  // kEndOfReplay: the marker
  std::string_view payload;
};

std::string sequence_frame(std::uint64_t sequence);
std::optional<std::uint64_t> parse_sequence(std::string_view frame);

/// nullopt for whatever is neither a message of the above nor the end marker.
std::optional<Message> parse_message(std::span<const std::string_view> frames);

}  // namespace kvern::engine::events

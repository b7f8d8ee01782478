#include "engine/events/frames.h"

namespace kvern::engine::events {

std::string sequence_frame(std::uint64_t sequence) {
  std::string frame(8, '\0');
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<char>(sequence >> (56 - 8 * i));
  return frame;
}

std::optional<std::uint64_t> parse_sequence(std::string_view frame) {
  if (frame.size() != 8) return std::nullopt;
  std::uint64_t sequence = 0;
  for (const char byte : frame) sequence = sequence << 8U | static_cast<std::uint8_t>(byte);
  return sequence;
}

std::optional<Message> parse_message(std::span<const std::string_view> frames) {
  // A delimiter in place of the topic makes three frames mean the same in both layouts.
  if (frames.size() == 4 && frames[0].empty()) frames = frames.subspan(1);
  if (frames.size() != 2 && frames.size() != 3) return std::nullopt;
  Message message;
  if (frames.size() == 3) message.topic = frames[0];
  message.payload = frames.back();
  const auto sequence = parse_sequence(frames[frames.size() - 2]);
  if (!sequence) return std::nullopt;
  message.sequence = *sequence;
  if ((message.sequence == kEndOfReplay) != message.payload.empty()) return std::nullopt;
  return message;
}

}  // namespace kvern::engine::events

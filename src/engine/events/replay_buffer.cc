#include "engine/events/replay_buffer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern::engine::events {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{1} << 20U;

std::size_t payload_bytes_of(const kv::KvEvent& event) {
  std::size_t bytes = 192;  // names and small fields
  if (const auto* stored = std::get_if<kv::BlockStored>(&event)) {
    bytes += stored->token_ids.size() * 5 + stored->block_hashes.size() * 10;
  } else if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) {
    bytes += removed->block_hashes.size() * 9;
  }
  return bytes;
}

}  // namespace

std::size_t payload_bytes(const std::vector<kv::KvEvent>& events) {
  std::size_t bytes = 0;
  for (const auto& event : events) bytes += payload_bytes_of(event);
  return bytes;
}

std::vector<std::vector<kv::KvEvent>> cut_into_messages(std::vector<kv::KvEvent> events, std::size_t bytes) {
  std::vector<std::vector<kv::KvEvent>> messages;
  if (payload_bytes(events) <= bytes) {
    messages.push_back(std::move(events));
    return messages;
  }
  std::size_t filled = bytes;
  for (kv::KvEvent& event : events) {
    if (filled >= bytes) {
      messages.emplace_back();
      filled = 0;
    }
    filled += payload_bytes_of(event);
    messages.back().push_back(std::move(event));
  }
  return messages;
}

void ReplayBuffer::append(std::string payload) {
  bytes_ += payload.size();
  payloads_.push_back(std::move(payload));
  while (payloads_.size() > 1 && (payloads_.size() > messages_max_ || bytes_ > bytes_max_)) drop_first();
}

void ReplayBuffer::drop_first() {
  auto decoded = decode(payloads_.front());
  KV_CHECK(decoded.ok());  // our own bytes
  for (const auto& event : decoded->batch.events) before_.apply(event);
  before_s_ = decoded->batch.timestamp_s;
  rank_ = decoded->batch.data_parallel_rank;
  bytes_ -= payloads_.front().size();
  payloads_.pop_front();
  ++first_;
}

std::vector<std::string> ReplayBuffer::state_before(std::size_t messages_max) const {
  auto events = before_.snapshot();
  // A cut comes after at least this many bytes, so there are no more messages than allowed.
  const std::size_t each = std::max(kMessageBytes, payload_bytes(events) / messages_max + 1);
  std::vector<std::string> payloads;
  for (auto& part : cut_into_messages(std::move(events), each)) {
    encode({.timestamp_s = before_s_, .events = std::move(part), .data_parallel_rank = rank_}, style_,
           payloads.emplace_back());
  }
  return payloads;
}

}  // namespace kvern::engine::events

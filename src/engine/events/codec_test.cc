#include "engine/events/codec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/json_reader.h"
#include "base/rng.h"
#include "base/strong_id.h"
#include "engine/events/frames.h"
#include "engine/events/msgpack.h"
#include "engine/events/testing/recordings.h"

namespace kvern::engine::events {
namespace {

using testing::from_hex;

// The words of testdata/make_vectors.py.

template <typename T>
std::string said(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string said(const kv::EngineHash& hash) {
  const auto* bytes = std::get_if<std::string>(&hash);
  return bytes != nullptr ? "x" + hex(*bytes) : std::to_string(std::get<std::uint64_t>(hash));
}

std::string said(const kv::ExtraKey& key) {
  if (const auto* text = std::get_if<std::string>(&key)) return "t:" + *text;
  if (const auto* media = std::get_if<kv::MediaKey>(&key)) return fmt::format("m:{}@{}", media->id, media->offset);
  return "o:" + hex(std::get<kv::OpaqueKey>(key).msgpack);
}

template <typename List>
std::string joined(const List& list, const char* separator, auto word) {
  std::string text;
  for (const auto& each : list) {
    if (&each != &list.front()) text += separator;
    text += word(each);
  }
  return text;
}

std::string said(const std::vector<kv::EngineHash>& hashes) {
  return joined(hashes, ",", [](const auto& hash) { return said(hash); });
}

std::string said(const std::optional<std::vector<kv::ExtraKeys>>& blocks) {
  if (!blocks) return "-";
  return joined(*blocks, ";", [](const kv::ExtraKeys& keys) {
    return keys ? joined(*keys, ",", [](const auto& key) { return said(key); }) : "-";
  });
}

std::string said(const kv::CachePlace& place) {
  return fmt::format("{} {} {} {} {} {} {}", said(place.medium), said(place.group_idx), said(place.spec_kind),
                     said(place.sliding_window), said(place.locality), said(place.ownership), said(place.source_kind));
}

std::string said(const kv::BlockStored& event) {
  return fmt::format("stored {} after {} tokens {}{} size {} lora {} {} salt {} keys {} session {} | {}",
                     said(event.block_hashes), event.parent ? said(*event.parent) : "-",
                     joined(event.token_ids, ",", [](TokenId token) { return std::to_string(token); }),
                     event.bigrams ? " bigrams" : "", event.block_size, said(event.lora_id), said(event.lora_name),
                     said(event.cache_salt), said(event.extra_keys), said(event.session_id), said(event.place));
}
std::string said(const kv::BlockRemoved& event) {
  return fmt::format("removed {} | {}", said(event.block_hashes), said(event.place));
}
std::string said(const kv::AllBlocksCleared& event) { return "cleared " + said(event.source_kind); }

std::string encoded(const kv::KvEventBatch& batch, WireStyle style) {
  std::string out;
  encode(batch, style, out);
  return out;
}

const std::map<std::string, WireStyle> kStyles = {{"vllm_maps", WireStyle::kVllmMaps},
                                                  {"vllm_tuples", WireStyle::kVllmTuples},
                                                  {"sglang_maps", WireStyle::kSglangMaps},
                                                  {"sglang_tuples", WireStyle::kSglangTuples}};

TEST(Codec, VectorsOfBothEngines) {
  std::size_t cases = 0;
  for (const std::string& line : testing::lines("vectors.jsonl")) {
    auto document = json::Document::parse(line, {});
    ASSERT_TRUE(document.ok());
    const json::Value vector = (*document)->root();
    SCOPED_TRACE(vector.find("name")->string());
    const std::string payload = from_hex(vector.find("hex")->string());
    auto decoded = decode(payload);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    std::vector<std::string> events;
    for (const auto& event : decoded->batch.events) {
      events.push_back(std::visit([](const auto& each) { return said(each); }, event));
    }
    std::vector<std::string> expected;
    for (const auto child : vector.find("events")->children()) expected.push_back(child.value.string());
    EXPECT_EQ(events, expected);
    EXPECT_EQ(std::int64_t{decoded->ignored}, vector.find("ignored")->integer());
    EXPECT_EQ(std::int64_t{decoded->unknown}, vector.find("unknown")->integer());
    const auto rank = *vector.find("rank");
    EXPECT_EQ(decoded->batch.data_parallel_rank.has_value(), !rank.is(json::Kind::kNull));
    if (!rank.is(json::Kind::kNull)) {
      EXPECT_EQ(std::int64_t{decoded->batch.data_parallel_rank.value()}, rank.integer());
    }
    const auto style = *vector.find("style");
    if (!style.is(json::Kind::kNull)) {
      EXPECT_EQ(hex(encoded(decoded->batch, kStyles.at(style.string()))), hex(payload));
    }
    ++cases;
  }
  EXPECT_GE(cases, 35U);
}

TEST(Codec, RecordingsComeBackByteForByte) {
  std::size_t batches = 0;
  for (const char* file : {"vllm-0.32-events.jsonl", "vllm-0.32-replay-from-3.jsonl"}) {
    for (const auto& frames : testing::recorded_frames(file)) {
      const std::vector<std::string_view> views(frames.begin(), frames.end());
      const auto message = parse_message(views);
      ASSERT_TRUE(message);
      if (message->sequence == kEndOfReplay) continue;
      EXPECT_EQ(message->topic, "kv");
      auto decoded = decode(message->payload);
      ASSERT_TRUE(decoded.ok()) << decoded.error().message;
      EXPECT_EQ(hex(encoded(decoded->batch, WireStyle::kVllmMaps)), hex(message->payload));
      EXPECT_EQ(decoded->unknown + decoded->ignored, 0U);
      // The other forms of the same events say the same.
      for (const auto style : {WireStyle::kVllmTuples, WireStyle::kSglangMaps}) {
        auto again = decode(encoded(decoded->batch, style));
        ASSERT_TRUE(again.ok()) << again.error().message;
        EXPECT_EQ(again->batch, decoded->batch);
      }
      ++batches;
    }
  }
  EXPECT_EQ(batches, 14U + 11U);
}

TEST(Codec, FirstRecordedBatch) {
  const auto frames = testing::recorded_frames("vllm-0.32-events.jsonl").at(5);
  auto decoded = decode(frames.at(2));
  ASSERT_TRUE(decoded.ok());
  ASSERT_EQ(decoded->batch.events.size(), 1U);
  const auto& stored = std::get<kv::BlockStored>(decoded->batch.events[0]);
  EXPECT_EQ(stored.block_hashes.size(), 3U);
  EXPECT_EQ(stored.token_ids.size(), 96U);
  EXPECT_EQ(stored.block_size, 32U);
  EXPECT_EQ(stored.parent, std::nullopt);
  EXPECT_EQ(said(stored.extra_keys), "t:tenant-1;-;-");
  EXPECT_EQ(kv::tier_of(stored.place.medium), kv::Tier::kDevice);
}

TEST(Codec, WhatIsNoBatchIsAnError) {
  const std::string hashes =
      "\xac"
      "block_hashes\x91\x01";
  const struct {
    const char* what;
    std::string payload;
  } cases[] = {
      {"nothing", ""},
      {"a number", "\x01"},
      {"an empty array", "\x90"},
      {"no events", "\x91\x01"},
      {"an array that claims four billion", std::string("\xdd\xff\xff\xff\xff", 5)},
      {"a map that claims four billion", std::string("\xdf\xff\xff\xff\xff", 5)},
      {"events that are a map", "\x92\x01\x80"},
      {"an event that is a number", "\x92\x01\x91\x01"},
      {"an event without a tag", "\x92\x01\x91\x90"},
      {"a map without a type", "\x92\x01\x91\x80"},
      {"stored without tokens",
       "\x92\x01\x91\x92\xab"
       "BlockStored\x90"},
      {"removed without hashes",
       "\x92\x01\x91\x91\xac"
       "BlockRemoved"},
      {"a negative token",
       "\x92\x01\x91\x95\xab"
       "BlockStored\x91\x01\xc0\x91\xff\x01"},
      {"a token beyond 31 bits", std::string("\x92\x01\x91\x95\xab"
                                             "BlockStored\x91\x01\xc0\x91\xce\x80\x00\x00\x00\x01",
                                             26)},
      {"pairs that do not go on",
       "\x92\x01\x91\x95\xab"
       "BlockStored\x91\x01\xc0\x92\x92\x01\x02\x92\x03\x04\x01"},
      {"a hash that is a text",
       "\x92\x01\x91\x92\xac"
       "BlockRemoved\x91\xa1z"},
      {"a hash that is missing",
       "\x92\x01\x91\x92\xac"
       "BlockRemoved\x92\x01"},
      {"bytes behind it", "\x92\x01\x90\x01"},
      {"the byte that is never used", "\x92\x01\x91\xc1"},
      {"a negative rank", "\x93\x01\x90\xff"},
      {"a map key that is a number", "\x92\x01\x91\x81\x01\x01"},
  };
  for (const auto& each : cases) {
    auto decoded = decode(each.payload);
    ASSERT_FALSE(decoded.ok()) << each.what;
    EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidRequest);
  }
}

TEST(Codec, EveryCutAndEveryDepthIsAnError) {
  for (const auto& frames : testing::recorded_frames("vllm-0.32-events.jsonl")) {
    const std::string& payload = frames.at(2);
    for (std::size_t cut = 0; cut < payload.size(); ++cut) {
      // A batch without its last element, the rank, cannot be told from one that never had it; but the array says so.
      EXPECT_FALSE(decode(std::string_view(payload).substr(0, cut)).ok()) << cut;
    }
  }
  // A million nested lists are skipped without a stack.
  std::string deep =
      "\x92\x01\x91\x92\xa4"
      "Deep";
  deep.append(1'000'000, '\x91');
  deep.push_back('\x01');
  auto decoded = decode(deep);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->unknown, 1U);
}

// --- Batches at random: what maps carry, they carry without loss ----------------------------------------------------

kv::EngineHash any_hash(Rng& rng) {
  if (rng.below(4) == 0) return std::string(rng.below(40), static_cast<char>(rng.below(256)));
  return rng.next() >> rng.below(64);
}

std::optional<std::string> maybe_text(Rng& rng) {
  if (rng.below(2) == 0) return std::nullopt;
  return std::string(rng.below(40) * rng.below(10), 'a');
}
std::optional<std::uint32_t> maybe_number(Rng& rng) {
  if (rng.below(2) == 0) return std::nullopt;
  return static_cast<std::uint32_t>(rng.next() >> (32 + rng.below(32)));
}

kv::CachePlace any_place(Rng& rng) {
  return {maybe_text(rng), maybe_number(rng), maybe_text(rng), maybe_number(rng),
          maybe_text(rng), maybe_text(rng),   maybe_text(rng)};
}

kv::ExtraKey any_key(Rng& rng) {
  switch (rng.below(3)) {
    case 0: return std::string(rng.below(70), 'k');
    case 1: return kv::MediaKey{std::string(rng.below(70), 'm'), static_cast<std::int64_t>(rng.next())};
    default:
      return kv::OpaqueKey{
          "\x82\xa1"
          "a\x01\xa1"
          "b\xc4\x01x"};
  }
}

kv::KvEvent any_event(Rng& rng) {
  if (rng.below(5) == 0) return kv::AllBlocksCleared{maybe_text(rng)};
  std::vector<kv::EngineHash> hashes(rng.below(40));
  for (auto& hash : hashes) hash = any_hash(rng);
  if (rng.below(2) == 0) return kv::BlockRemoved{std::move(hashes), any_place(rng)};
  kv::BlockStored stored;
  stored.block_size = static_cast<std::uint32_t>(1 + rng.below(40));
  stored.token_ids.resize(hashes.size() * stored.block_size);
  for (auto& token : stored.token_ids) token = static_cast<TokenId>(rng.next() >> (33 + rng.below(31)));
  stored.bigrams = stored.token_ids.size() > 1 && rng.below(3) == 0;
  if (rng.below(2) == 0) stored.parent = any_hash(rng);
  if (rng.below(2) == 0) stored.lora_id = static_cast<std::int64_t>(rng.next());
  stored.lora_name = maybe_text(rng);
  stored.cache_salt = maybe_text(rng);
  stored.session_id = maybe_text(rng);
  if (rng.below(2) == 0) {
    stored.extra_keys.emplace(hashes.size());
    for (auto& keys : *stored.extra_keys) {
      if (rng.below(2) == 0) continue;
      keys.emplace();
      for (std::uint64_t i = rng.below(4); i > 0; --i) keys->push_back(any_key(rng));
    }
  }
  stored.block_hashes = std::move(hashes);
  stored.place = any_place(rng);
  return stored;
}

TEST(Codec, MapsCarryEverything) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    kv::KvEventBatch batch;
    batch.timestamp_s = rng.uniform() * 1e10;
    if (rng.below(2) == 0) batch.data_parallel_rank = static_cast<std::int32_t>(rng.below(1U << 31U));
    for (std::uint64_t i = rng.below(20); i > 0; --i) batch.events.push_back(any_event(rng));
    for (const auto style : {WireStyle::kVllmMaps, WireStyle::kSglangMaps}) {
      auto decoded = decode(encoded(batch, style));
      ASSERT_TRUE(decoded.ok()) << decoded.error().message;
      ASSERT_EQ(decoded->batch, batch);
    }
    for (const auto style : {WireStyle::kVllmTuples, WireStyle::kSglangTuples}) {
      const std::string once = encoded(batch, style);
      auto decoded = decode(once);
      ASSERT_TRUE(decoded.ok()) << decoded.error().message;
      ASSERT_EQ(encoded(decoded->batch, style), once);
      ASSERT_EQ(decoded->batch.events.size(), batch.events.size());
    }
  }
}

TEST(Msgpack, PicksTheShortestForm) {
  const auto written = [](auto write, auto... values) {
    std::string out;
    write(out, values...);
    return hex(out);
  };
  const auto number = [&](std::int64_t value) { return written(msgpack::write_signed, value); };
  EXPECT_EQ(number(0), "00");
  EXPECT_EQ(number(127), "7f");
  EXPECT_EQ(number(128), "cc80");
  EXPECT_EQ(number(256), "cd0100");
  EXPECT_EQ(number(65536), "ce00010000");
  EXPECT_EQ(number(std::int64_t{1} << 32U), "cf0000000100000000");
  EXPECT_EQ(number(-1), "ff");
  EXPECT_EQ(number(-32), "e0");
  EXPECT_EQ(number(-33), "d0df");
  EXPECT_EQ(number(-129), "d1ff7f");
  EXPECT_EQ(number(-32769), "d2ffff7fff");
  EXPECT_EQ(number(-(std::int64_t{1} << 31U) - 1), "d3ffffffff7fffffff");
  EXPECT_EQ(number(std::numeric_limits<std::int64_t>::min()), "d38000000000000000");
  EXPECT_EQ(written(msgpack::write_array, 15), "9f");
  EXPECT_EQ(written(msgpack::write_array, 16), "dc0010");
  EXPECT_EQ(written(msgpack::write_array, 65536), "dd00010000");
  EXPECT_EQ(written(msgpack::write_map, 15), "8f");
  EXPECT_EQ(written(msgpack::write_map, 16), "de0010");
  EXPECT_EQ(written(msgpack::write_map, 65536), "df00010000");
  const auto head = [&](auto write, std::size_t size) { return written(write, std::string(size, 'a')).substr(0, 10); };
  EXPECT_EQ(head(msgpack::write_text, 31).substr(0, 4), "bf61");
  EXPECT_EQ(head(msgpack::write_text, 32).substr(0, 6), "d92061");
  EXPECT_EQ(head(msgpack::write_text, 256).substr(0, 8), "da010061");
  EXPECT_EQ(head(msgpack::write_text, 65536), "db00010000");
  EXPECT_EQ(head(msgpack::write_bytes, 0), "c400");
  EXPECT_EQ(head(msgpack::write_bytes, 256).substr(0, 8), "c5010061");
  EXPECT_EQ(head(msgpack::write_bytes, 65536), "c600010000");
}

TEST(Msgpack, IntegersOfEveryWidthComeBack) {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bits = rng.next() >> rng.below(64);
    const bool is_signed = rng.below(2) == 0;
    const auto value = static_cast<std::int64_t>(rng.below(2) == 0 ? bits : ~bits);
    std::string out;
    is_signed ? msgpack::write_signed(out, value) : msgpack::write_unsigned(out, bits);
    msgpack::Reader reader(out);
    msgpack::Integer read;
    ASSERT_TRUE(reader.integer(read));
    ASSERT_EQ(read.bits, is_signed ? static_cast<std::uint64_t>(value) : bits);
    ASSERT_EQ(read.negative, is_signed && value < 0);
    ASSERT_EQ(reader.remaining(), 0U);
  }
}

TEST(Msgpack, SkipsEveryType) {
  for (const char* text : {"c0",
                           "c2",
                           "c3",
                           "7f",
                           "e0",
                           "cc01",
                           "cd0001",
                           "ce00000001",
                           "cf0000000000000001",
                           "d0ff",
                           "d1ffff",
                           "d2ffffffff",
                           "d3ffffffffffffffff",
                           "ca00000000",
                           "cb0000000000000000",
                           "a161",
                           "d90161",
                           "da000161",
                           "db0000000161",
                           "c40161",
                           "c5000161",
                           "c60000000161",
                           "d40161",
                           "d5016161",
                           "d60161616161",
                           "d7016161616161616161",
                           "d80161616161616161616161616161616161",
                           "c7010161",
                           "c800010161",
                           "c9000000010161",
                           "9101",
                           "dc000101",
                           "dd0000000101",
                           "8101c0",
                           "de000101c0",
                           "df0000000101c0",
                           "9382a161c0a162920102cb0000000000000000a0"}) {
    const std::string bytes = from_hex(text);
    msgpack::Reader reader(bytes);
    EXPECT_TRUE(reader.skip()) << text;
    EXPECT_EQ(reader.remaining(), 0U) << text;
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      msgpack::Reader shorter(std::string_view(bytes).substr(0, cut));
      EXPECT_FALSE(shorter.skip()) << text << " cut at " << cut;
      EXPECT_EQ(shorter.offset(), 0U);
    }
  }
}

}  // namespace
}  // namespace kvern::engine::events

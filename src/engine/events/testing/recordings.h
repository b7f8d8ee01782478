// For tests: the files of testdata/ (recordings of a stock vLLM, and vectors.jsonl).
#pragma once

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json_reader.h"
#include "base/testing/source_path.h"

namespace kvern::engine::events::testing {

inline std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned have = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6U | static_cast<std::uint32_t>(kDigits.find(digit));
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes.push_back(static_cast<char>(bits >> have));
  }
  return bytes;
}

inline std::vector<std::string> lines(const std::string& file) {
  std::ifstream in(source_path("engine/events/testdata/" + file));
  KV_CHECK(in.good());
  std::vector<std::string> found;
  for (std::string line; std::getline(in, line);) found.push_back(line);
  return found;
}

/// The frames of each message of a recording, in order.
inline std::vector<std::vector<std::string>> recorded_frames(const std::string& file) {
  std::vector<std::vector<std::string>> messages;
  for (const std::string& line : lines(file)) {
    auto document = json::Document::parse(line, {});
    KV_CHECK(document.ok());
    auto& frames = messages.emplace_back();
    for (const auto frame : (*document)->root().find("frames")->children()) {
      frames.push_back(from_base64(frame.value.string()));
    }
  }
  return messages;
}

}  // namespace kvern::engine::events::testing

// What OpenAI's two generating endpoints share in their answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strong_id.h"

namespace kvern::api {

/// What every object of one answer repeats, and how many choices there are.
struct AnswerHead {
  RequestId id;
  std::chrono::seconds created{};
  std::string model;
  std::uint32_t choices = 1;                   // of each prompt
  std::uint32_t answers = 1;                   // of all prompts: what the indices count
  bool logprobs = false;                       // asked for
  std::vector<std::string> custom_tools = {};  // names of the tools that are called with raw text
};

}  // namespace kvern::api

// Completion answers: `text_completion` objects, one a piece or one for all.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "api/dialect.h"

namespace kvern::api {

/// What every object of one answer repeats.
struct CompletionHead {
  RequestId id;
  std::chrono::seconds created{};
  std::string model;
};

/// One event a piece, the finish reason in the last; with `include_usage` one more without choices.
std::unique_ptr<Encoder> make_completion_stream(const CompletionHead& head, bool include_usage);
/// One document at End. A Failure writes nothing.
std::unique_ptr<Encoder> make_completion_whole(const CompletionHead& head);

}  // namespace kvern::api

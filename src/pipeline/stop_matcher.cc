#include "pipeline/stop_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace kvern::pipeline {
namespace {

std::vector<std::size_t> failure_table(std::string_view text) {
  std::vector<std::size_t> failure(text.size(), 0);
  for (std::size_t i = 1, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k]) k = failure[k - 1];
    if (text[i] == text[k]) ++k;
    failure[i] = k;
  }
  return failure;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> strings) {
  for (auto& text : strings) {
    KV_CHECK(!text.empty());
    auto failure = failure_table(text);
    patterns_.push_back({std::move(text), std::move(failure)});
  }
}

std::optional<std::string> StopMatcher::add(std::string_view text, std::string& out) {
  if (patterns_.empty()) {
    out += text;
    return std::nullopt;
  }
  for (const char c : text) {
    held_ += c;
    const Pattern* complete = nullptr;
    std::size_t keep = 0;
    for (auto& pattern : patterns_) {
      while (pattern.matched > 0 && pattern.text[pattern.matched] != c) {
        pattern.matched = pattern.failure[pattern.matched - 1];
      }
      if (pattern.text[pattern.matched] == c) ++pattern.matched;
      keep = std::max(keep, pattern.matched);
      if (pattern.matched == pattern.text.size() &&
          (complete == nullptr || pattern.text.size() > complete->text.size())) {
        complete = &pattern;
      }
    }
    if (complete != nullptr) {
      // What came before the match is text, held bytes of other patterns included.
      out.append(held_, 0, held_.size() - complete->text.size());
      held_.clear();
      return complete->text;
    }
    if (held_.size() > keep) {
      out.append(held_, 0, held_.size() - keep);
      held_.erase(0, held_.size() - keep);
    }
  }
  return std::nullopt;
}

void StopMatcher::finish(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace kvern::pipeline

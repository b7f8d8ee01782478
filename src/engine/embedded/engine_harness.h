// For tests of the embedded engine: a tokenizer for its model, sinks that wait, requests in one line.
#pragma once

#include <llama.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/embedded/llama_log.h"
#include "engine/engine.h"

namespace kvern::engine::harness {

/// What came of one request.
struct Answer {
  std::optional<Accepted> accepted;
  Tokens tokens;
  std::vector<TokenLogprob> logprobs;
  std::optional<Finished> finished;
  std::optional<Failed> failed;
  int ends = 0;
  bool out_of_order = false;  // an event before Accepted, or after the end
};

/// Collects the events of any number of requests.
class Collector final : public EventSink {
 public:
  void on_events(std::vector<EngineEvent> events) override {
    const std::lock_guard lock(mutex_);
    ++calls_;
    for (EngineEvent& event : events) {
      Answer& answer = answers_[event.id];
      if (answer.ends > 0) answer.out_of_order = true;
      if (auto* accepted = std::get_if<Accepted>(&event.body)) {
        if (answer.accepted) answer.out_of_order = true;
        answer.accepted = *accepted;
      } else if (auto* output = std::get_if<Output>(&event.body)) {
        if (!answer.accepted) answer.out_of_order = true;
        answer.tokens.insert(answer.tokens.end(), output->tokens.begin(), output->tokens.end());
        answer.logprobs.insert(answer.logprobs.end(), output->logprobs.begin(), output->logprobs.end());
      } else if (auto* finished = std::get_if<Finished>(&event.body)) {
        answer.finished = *finished;
        ++answer.ends;
      } else {
        answer.failed = std::get<Failed>(event.body);
        ++answer.ends;
      }
    }
    changed_.notify_all();
  }

  Answer wait(RequestId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_[id].ends > 0; });
    return answers_[id];
  }
  /// Blocks until the request has at least `tokens` tokens or its end.
  void wait_tokens(RequestId id, std::size_t tokens) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_[id].ends > 0 || answers_[id].tokens.size() >= tokens; });
  }
  void wait_accepted(RequestId id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_[id].ends > 0 || answers_[id].accepted; });
  }
  Answer peek(RequestId id) {
    const std::lock_guard lock(mutex_);
    return answers_[id];
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Answer> answers_;
  int calls_ = 0;
};

/// The model's vocabulary, without its weights.
class Words {
 public:
  explicit Words(const std::string& model_path) {
    route_llama_log({});
    auto params = llama_model_default_params();
    params.vocab_only = true;
    model_.reset(llama_model_load_from_file(model_path.c_str(), params));
    KV_CHECK(model_ != nullptr);
  }
  Tokens tokens(const std::string& text) const {
    Tokens tokens(text.size() + 8);
    const int count = llama_tokenize(vocab(), text.data(), static_cast<int>(text.size()), tokens.data(),
                                     static_cast<int>(tokens.size()), false, true);
    KV_CHECK(count >= 0);
    tokens.resize(static_cast<std::size_t>(count));
    return tokens;
  }
  std::string text(const Tokens& tokens) const {
    std::string text(tokens.size() * 32 + 32, '\0');
    const int size = llama_detokenize(vocab(), tokens.data(), static_cast<int>(tokens.size()), text.data(),
                                      static_cast<int>(text.size()), false, true);
    KV_CHECK(size >= 0);
    text.resize(static_cast<std::size_t>(size));
    return text;
  }

 private:
  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
  };
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }
  std::unique_ptr<llama_model, Free> model_;
};

}  // namespace kvern::engine::harness

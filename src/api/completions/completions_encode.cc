#include "api/completions/completions_encode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/answer_extension.h"
#include "api/openai_error.h"
#include "api/openai_logprobs.h"
#include "api/openai_usage.h"
#include "base/json_writer.h"
#include "ir/usage_sum.h"

namespace kvern::api {
namespace {

std::string_view quoted_reason(ir::FinishReason reason) noexcept {
  return reason == ir::FinishReason::kLength ? R"("length")" : R"("stop")";
}

/// `{"id", "object", "created", "model",` of either kind.
std::string object_start(const AnswerHead& head) {
  std::string out = R"({"id":"cmpl-)" + hex64(head.id.value) + R"(","object":"text_completion","created":)";
  json::append_number(out, head.created.count());
  out += R"(,"model":)";
  json::append_quoted(out, head.model);
  return out += ',';
}

class CompletionStream final : public Encoder {
 public:
  CompletionStream(const AnswerHead& head, bool include_usage)
      : head_(head), include_usage_(include_usage), choices_(head.answers), usage_(head.choices) {
    prepare();
  }

  void set_model(std::string_view name) override {
    head_.model = name;
    prepare();
  }

  void set_extension(std::string json) override { extension_ = std::move(json); }

  void add(std::uint32_t index, const ir::Event& event, std::string& out) override {
    if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      chunk(index, delta->text, delta->logprobs, "null", out);
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      finish_choice(index, *end, out);
    } else if (const auto* failure = std::get_if<ir::Failure>(&event)) {
      out += "data: ";
      append_openai_error(failure->error, out);
      out += "\n\n";
    }
  }

  void keep_alive(std::string& out) override {
    const auto at = std::ranges::find_if(choices_, [](const Choice& choice) { return !choice.ended; });
    if (at != choices_.end()) chunk(static_cast<std::uint32_t>(at - choices_.begin()), "", {}, "null", out);
  }

 private:
  struct Choice {
    bool ended = false;
    CompletionLogprobs logprobs;
  };

  void finish_choice(std::uint32_t index, const ir::End& end, std::string& out) {
    choices_[index].ended = true;
    usage_.add(index, end.usage);
    const bool is_last = ++ended_ == choices_.size();
    chunk(index, "", {}, quoted_reason(end.reason), out,
          is_last && !include_usage_ ? std::string_view(extension_) : std::string_view());
    if (is_last) append_stream_end(head_text_, include_usage_, usage_.total(), extension_, out);
  }

  void chunk(std::uint32_t index, std::string_view text, std::span<const ir::TokenLogprob> logprobs,
             std::string_view reason, std::string& out, std::string_view extension = {}) {
    out += prefix_;
    json::append_number(out, index);
    out += R"(,"text":")";
    json::append_escaped(out, text);
    out += R"(","logprobs":)";
    if (logprobs.empty()) {
      out += "null";
    } else {
      choices_[index].logprobs.add(logprobs);
      choices_[index].logprobs.take(out);
    }
    out += R"(,"finish_reason":)";
    out += reason;
    out += include_usage_ ? "}],\"usage\":null" : "}]";
    append_extension(extension, out);
    out += "}\n\n";
  }

  void prepare() {
    head_text_ = "data: " + object_start(head_);
    prefix_ = head_text_ + R"("choices":[{"index":)";
  }

  AnswerHead head_;
  bool include_usage_;
  std::string head_text_;
  std::string prefix_;
  std::vector<Choice> choices_;
  std::size_t ended_ = 0;
  ir::UsageSum usage_;
  std::string extension_;
};

class CompletionWhole final : public Encoder {
 public:
  explicit CompletionWhole(const AnswerHead& head) : head_(head), choices_(head.answers), usage_(head.choices) {}

  void set_model(std::string_view name) override { head_.model = name; }
  void set_extension(std::string json) override { extension_ = std::move(json); }
  void keep_alive(std::string&) override {}

  void add(std::uint32_t index, const ir::Event& event, std::string& out) override {
    Choice& choice = choices_[index];
    if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      choice.text += delta->text;
      choice.logprobs.add(delta->logprobs);
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      choice.reason = end->reason;
      usage_.add(index, end->usage);
      if (++ended_ == choices_.size()) write(out);
    }
  }

 private:
  struct Choice {
    std::string text;
    CompletionLogprobs logprobs;
    ir::FinishReason reason = ir::FinishReason::kStop;
  };

  void write(std::string& out) {
    out += object_start(head_);
    out += R"("choices":[)";
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      out += i == 0 ? R"({"index":)" : R"(,{"index":)";
      json::append_number(out, static_cast<std::int64_t>(i));
      out += R"(,"text":)";
      json::append_quoted(out, choices_[i].text);
      out += R"(,"logprobs":)";
      head_.logprobs ? choices_[i].logprobs.take(out) : static_cast<void>(out += "null");
      out += R"(,"finish_reason":)";
      out += quoted_reason(choices_[i].reason);
      out += '}';
    }
    out += R"(],"usage":)";
    append_openai_usage(usage_.total(), out);
    append_extension(extension_, out);
    out += '}';
  }

  AnswerHead head_;
  std::vector<Choice> choices_;
  std::size_t ended_ = 0;
  ir::UsageSum usage_;
  std::string extension_;
};

}  // namespace

std::unique_ptr<Encoder> make_completion_stream(const AnswerHead& head, bool include_usage) {
  return std::make_unique<CompletionStream>(head, include_usage);
}

std::unique_ptr<Encoder> make_completion_whole(const AnswerHead& head) {
  return std::make_unique<CompletionWhole>(head);
}

}  // namespace kvern::api

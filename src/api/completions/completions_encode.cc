#include "api/completions/completions_encode.h"

#include "api/openai_error.h"
#include "api/openai_usage.h"
#include "base/json_writer.h"

namespace kvern::api {
namespace {

std::string_view finish_reason(ir::FinishReason reason) noexcept {
  return reason == ir::FinishReason::kLength ? "length" : "stop";
}

/// `{"id", "object", "created", "model",` of either kind.
std::string object_start(const CompletionHead& head) {
  std::string out = R"({"id":"cmpl-)" + hex64(head.id.value) + R"(","object":"text_completion","created":)";
  json::append_number(out, head.created.count());
  out += R"(,"model":)";
  json::append_quoted(out, head.model);
  return out += ',';
}

class CompletionStream final : public Encoder {
 public:
  CompletionStream(const CompletionHead& head, bool include_usage) : head_(head), include_usage_(include_usage) {
    prepare();
  }

  void set_model(std::string_view name) override {
    head_.model = name;
    prepare();
  }

  void add(const ir::Event& event, std::string& out) override {
    if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      chunk(delta->text, "null", out);
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      chunk("", finish_reason(end->reason) == "length" ? "\"length\"" : "\"stop\"", out);
      if (include_usage_) {
        out += head_text_;
        out += R"("choices":[],"usage":)";
        append_openai_usage(end->usage, out);
        out += "}\n\n";
      }
      out += "data: [DONE]\n\n";
    } else if (const auto* failure = std::get_if<ir::Failure>(&event)) {
      out += "data: ";
      append_openai_error(failure->error, out);
      out += "\n\n";
    }
  }

  void keep_alive(std::string& out) override { chunk("", "null", out); }

 private:
  void chunk(std::string_view text, std::string_view reason, std::string& out) {
    out += prefix_;
    json::append_escaped(out, text);
    out += R"(","logprobs":null,"finish_reason":)";
    out += reason;
    out += include_usage_ ? "}],\"usage\":null}\n\n" : "}]}\n\n";
  }
  void prepare() {
    head_text_ = "data: " + object_start(head_);
    prefix_ = head_text_ + R"("choices":[{"index":0,"text":")";
  }

  CompletionHead head_;
  bool include_usage_;
  std::string head_text_;
  std::string prefix_;
};

class CompletionWhole final : public Encoder {
 public:
  explicit CompletionWhole(const CompletionHead& head) : head_(head) {}

  void set_model(std::string_view name) override { head_.model = name; }
  void keep_alive(std::string&) override {}

  void add(const ir::Event& event, std::string& out) override {
    if (const auto* delta = std::get_if<ir::BlockDelta>(&event)) {
      text_ += delta->text;
    } else if (const auto* end = std::get_if<ir::End>(&event)) {
      out += object_start(head_);
      out += R"("choices":[{"index":0,"text":)";
      json::append_quoted(out, text_);
      out += R"(,"logprobs":null,"finish_reason":)";
      json::append_quoted(out, finish_reason(end->reason));
      out += R"(}],"usage":)";
      append_openai_usage(end->usage, out);
      out += '}';
    }
  }

 private:
  CompletionHead head_;
  std::string text_;
};

}  // namespace

std::unique_ptr<Encoder> make_completion_stream(const CompletionHead& head, bool include_usage) {
  return std::make_unique<CompletionStream>(head, include_usage);
}

std::unique_ptr<Encoder> make_completion_whole(const CompletionHead& head) {
  return std::make_unique<CompletionWhole>(head);
}

}  // namespace kvern::api

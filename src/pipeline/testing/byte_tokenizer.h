// For unit tests of the pipeline: a vocabulary of the 256 bytes and one end token, and a template that prints
// `role:text\n`. The real ones are tried in prompt's own tests and end to end.
#pragma once

#include <string>
#include <vector>

#include "prompt/chat_template.h"
#include "prompt/tokenizer.h"

namespace kvern::pipeline::testing {

inline constexpr TokenId kEndToken = 256;

class ByteTokenizer final : public prompt::Tokenizer {
 public:
  Tokens encode(std::span<const prompt::Span> spans, std::string_view = {}) const override {
    Tokens tokens;
    for (const auto& span : spans) {
      for (const char c : span.text) tokens.push_back(static_cast<unsigned char>(c));
    }
    return tokens;
  }
  Tokens encode_text(std::string_view text, bool, std::string_view = {}) const override {
    const prompt::Span span{std::string(text), prompt::Origin::kData};
    return encode({&span, 1});
  }
  std::string piece(TokenId token, bool special) const override {
    if (token == kEndToken) return special ? "<end>" : "";
    return std::string(1, static_cast<char>(token));
  }
  bool is_special(TokenId token) const override { return token == kEndToken; }
  bool is_end(TokenId token) const override { return token == kEndToken; }
  std::uint32_t size() const override { return 257; }
  std::size_t piece_bytes_max() const override { return 8; }  // a bound, not the exact length
};

class PlainTemplate final : public prompt::ChatTemplate {
 public:
  explicit PlainTemplate(std::string tail = "assistant:") : tail_(std::move(tail)) {}
  Result<std::vector<prompt::Span>> render(const ir::Request& request) const override {
    std::vector<prompt::Span> spans;
    for (const auto& message : std::get<std::vector<ir::Message>>(request.prompt)) {
      spans.push_back({std::string(to_string(message.role)) + ":", prompt::Origin::kTemplate});
      for (const auto& block : message.blocks) {
        if (const auto* text = std::get_if<ir::Text>(&block.content)) {
          if (text->text == "refuse me") return invalid("messages", "the template refuses this");
          spans.push_back({text->text, prompt::Origin::kData});
        }
      }
      spans.push_back({"\n", prompt::Origin::kTemplate});
    }
    spans.push_back({tail_, prompt::Origin::kTemplate});
    return spans;
  }
  const prompt::TemplateTraits& traits() const override { return traits_; }

 private:
  const std::string tail_;
  const prompt::TemplateTraits traits_;
};

}  // namespace kvern::pipeline::testing

#include "prompt/jinja_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "jinja/bounds.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"

namespace kvern::prompt {
namespace {

constexpr std::size_t kSourceBytesMax = 1U << 20U;
constexpr std::size_t kMessageBytesMax = 300;
constexpr std::uint64_t kBaseBytes = 16U << 20U;
constexpr std::uint64_t kBytesPerInputByte = 32;

/// The template's own words, fit for a client: one line, printable, short.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMessageBytesMax)) {
    if (c == '\n' && out.empty()) continue;
    if (c == '\n') break;
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0x80U) != 0) out.pop_back();  // maybe cut in two
  return out;
}

/// The template's own refusal is for the client; what the engine says of a faulty template is not.
Error refused(std::string_view report) {
  constexpr std::string_view kRaised = "Jinja Exception: ";
  const std::size_t at = report.rfind(kRaised);
  if (at != std::string_view::npos) {
    return invalid("messages",
                   "the model's chat template refuses this conversation: " + shown(report.substr(at + kRaised.size())));
  }
  return invalid("messages", "the model's chat template cannot print this conversation");
}

std::vector<Span> spans_of(jinja::string&& text) {
  std::vector<Span> spans;
  for (jinja::string_part& part : text.parts) {
    if (part.val.empty()) continue;
    const Origin origin = part.is_input ? Origin::kData : Origin::kTemplate;
    if (!spans.empty() && spans.back().origin == origin) {
      spans.back().text += part.val;
    } else {
      spans.push_back({std::move(part.val), origin});
    }
  }
  return spans;
}

}  // namespace

Result<std::shared_ptr<const JinjaProgram>> JinjaProgram::compile(std::string_view source) {
  if (source.size() > kSourceBytesMax) {
    return fail(ErrorCode::kInvalidRequest, fmt::format("the chat template is longer than {} bytes", kSourceBytesMax));
  }
  try {
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(std::string(source));
    std::shared_ptr<JinjaProgram> program(new JinjaProgram);
    program->program_ = jinja::parse_from_tokens(tokens);
    program->source_ = std::make_shared<std::string>(tokens.source);
    return std::shared_ptr<const JinjaProgram>(std::move(program));
  } catch (const jinja::bounds_exceeded&) {
    return fail(ErrorCode::kInvalidRequest, "the chat template nests too deeply (bound: depth)");
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInvalidRequest, "the chat template does not compile: " + shown(error.what()));
  }
}

Result<std::vector<Span>> JinjaProgram::run(const Setup& setup, const RenderLimits& limits,
                                            std::size_t input_bytes) const {
  const std::uint64_t bytes = std::min(limits.bytes, kBaseBytes + kBytesPerInputByte * input_bytes);
  // Outlives every value of the run, and frees those that hold each other in a circle.
  jinja::bounds bounds(limits.steps, bytes, limits.depth, limits.milliseconds);
  try {
    jinja::context context;
    context.src = source_;
    setup(context);
    jinja::runtime runtime(context);
    const jinja::value_string parts = jinja::runtime::gather_string_parts(runtime.execute(program_));
    return spans_of(std::move(parts->val_str));
  } catch (const jinja::bounds_exceeded& error) {
    return fail(
        ErrorCode::kInvalidRequest,
        fmt::format("printing the conversation by the model's chat template takes too much (bound: {})", error.bound));
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

}  // namespace kvern::prompt

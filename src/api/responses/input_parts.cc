#include "api/responses/input_parts.h"

#include <fmt/format.h>

#include <utility>

#include "api/media_parts.h"

namespace kvern::api {
namespace {

void add_image(const Fields& part, std::vector<MarkedPart>& out) {
  refuse_file_id(part);
  auto image = decode_image_url(part, "image_url");
  if (!image) return;
  part.string("detail", Limit::kNameBytes, image->detail);
  out.push_back({*std::move(image), std::nullopt});
}

void add_file(const Fields& part, std::vector<MarkedPart>& out) {
  if (auto file = decode_file(part)) out.push_back({*std::move(file), std::nullopt});
}

void decode_part(const Fields& part, std::vector<MarkedPart>& out) {
  std::string type;
  if (!part.required("type") || !part.string("type", type)) return;
  if (type == "input_image" || type == "input_file") {
    return type == "input_image" ? add_image(part, out) : add_file(part, out);
  }
  const bool refusal = type == "refusal";
  if (!refusal && type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text" &&
      type != "summary_text") {
    return part.decoding().fail(
        part.path("type"),
        fmt::format("must be input_text, output_text, refusal, input_image or input_file, not {}", shown(type)));
  }
  const std::string_view name = refusal ? "refusal" : "text";
  ir::Text text;
  if (part.required(name) && part.string(name, text.text)) out.push_back({std::move(text), std::nullopt});
}

}  // namespace

std::vector<MarkedPart> decode_input_parts(const Fields& item, std::string_view key, CacheMarks* marks) {
  std::vector<MarkedPart> out;
  const auto content = item.find(key);
  if (!content) return out;
  Decoding& decoding = item.decoding();
  const Path path = item.path(key);
  if (content->is(json::Kind::kString)) {
    out.push_back({ir::Text{content->string()}, std::nullopt});
  } else if (content->is(json::Kind::kArray)) {
    each_object(*content, Limit::kParts, path, decoding, [&](const Fields& part) {
      const std::size_t before = out.size();
      decode_part(part, out);
      if (marks != nullptr && out.size() > before) out.back().cache = marks->read(part);
    });
  } else {
    decoding.wrong_type(path, "a string or an array of parts", content->kind());
  }
  return out;
}

std::string joined_texts(const Fields& item, std::string_view key) {
  std::string out;
  for (const MarkedPart& marked : decode_input_parts(item, key, nullptr)) {
    if (const auto* text = std::get_if<ir::Text>(&marked.part)) out += text->text;
  }
  return out;
}

}  // namespace kvern::api

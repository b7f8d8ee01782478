#include "api/responses/input_parts.h"

#include <fmt/format.h>

#include <utility>

#include "api/responses/data_url.h"
#include "base/text.h"

namespace kvern::api {
namespace {

constexpr std::string_view kNoFetch = "must be a data: URL with base64; kvern fetches nothing";

/// An id of an upload, of which there are none here.
void refuse_file_id(const Fields& part) {
  if (part.has("file_id")) part.decoding().unsupported(part.path("file_id"), "no files are kept; send the data itself");
}

std::optional<ir::Part> image_part(const Fields& part) {
  refuse_file_id(part);
  ir::Image image;
  std::string url;
  part.string("detail", Limit::kNameBytes, image.detail);
  if (!part.required("image_url") || !part.string("image_url", url)) return std::nullopt;
  auto data = parse_data_url(url);
  if (!data) {
    part.decoding().fail(part.path("image_url"), kNoFetch);
    return std::nullopt;
  }
  image.media_type = std::move(data->media_type);
  image.data = std::move(data->base64);
  return image;
}

/// `file_data` is a data URL, or bare base64 of what its name says.
std::optional<ir::Part> file_part(const Fields& part) {
  Decoding& decoding = part.decoding();
  refuse_file_id(part);
  if (part.has("file_url")) decoding.unsupported(part.path("file_url"), "kvern fetches nothing; send `file_data`");
  ir::Document document;
  std::string data;
  part.string("filename", Limit::kNameBytes, document.title);
  if (!part.required("file_data") || !part.string("file_data", data)) return std::nullopt;
  auto url = data.starts_with("data:") ? parse_data_url(data)
             : decode_base64(data)     ? std::optional(DataUrl{"application/octet-stream", data})
                                       : std::nullopt;
  if (!url) {
    decoding.fail(part.path("file_data"), "must be base64 or a data: URL with base64");
    return std::nullopt;
  }
  document.media_type = std::move(url->media_type);
  if (document.media_type.starts_with("text/")) {
    document.text = *decode_base64(url->base64);
    if (is_utf8(document.text)) return document;
    decoding.fail(part.path("file_data"), "must be UTF-8 where the file is text");
    return std::nullopt;
  }
  document.data = std::move(url->base64);
  return document;
}

void decode_part(json::Value value, const Path& path, Decoding& decoding, std::vector<ir::Part>& out) {
  if (!value.is(json::Kind::kObject)) return decoding.wrong_type(path, "an object", value.kind());
  const Fields part(value, path, decoding);
  std::string type;
  if (!part.required("type") || !part.string("type", type)) return;
  if (type == "input_image" || type == "input_file") {
    if (auto media = type == "input_image" ? image_part(part) : file_part(part)) out.push_back(*std::move(media));
    return;
  }
  const bool refusal = type == "refusal";
  if (!refusal && type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text" &&
      type != "summary_text") {
    return decoding.fail(
        part.path("type"),
        fmt::format("must be input_text, output_text, refusal, input_image or input_file, not {}", shown(type)));
  }
  const std::string_view name = refusal ? "refusal" : "text";
  ir::Text text;
  if (part.required(name) && part.string(name, text.text)) out.emplace_back(std::move(text));
}

}  // namespace

std::vector<ir::Part> decode_input_parts(const Fields& item, std::string_view key) {
  std::vector<ir::Part> out;
  const auto content = item.find(key);
  if (!content) return out;
  Decoding& decoding = item.decoding();
  const Path path = item.path(key);
  if (content->is(json::Kind::kString)) {
    out.emplace_back(ir::Text{content->string()});
  } else if (content->is(json::Kind::kArray)) {
    if (!decoding.within(Limit::kParts, content->size(), path)) return out;
    std::size_t index = 0;
    for (const auto& child : content->children()) {
      if (decoding.failed()) break;
      decode_part(child.value, element_of(path, index++), decoding, out);
    }
  } else {
    decoding.wrong_type(path, "a string or an array of parts", content->kind());
  }
  return out;
}

std::string joined_texts(const Fields& item, std::string_view key) {
  std::string out;
  for (const ir::Part& part : decode_input_parts(item, key)) {
    if (const auto* text = std::get_if<ir::Text>(&part)) out += text->text;
  }
  return out;
}

}  // namespace kvern::api

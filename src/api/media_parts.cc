#include "api/media_parts.h"

#include <utility>

#include "api/data_url.h"
#include "base/base64.h"
#include "base/text.h"

namespace kvern::api {

void refuse_file_id(const Fields& part) {
  if (part.has("file_id")) part.decoding().unsupported(part.path("file_id"), "no files are kept; send the data itself");
}

std::optional<ir::Image> decode_image_url(const Fields& fields, std::string_view name) {
  std::string url;
  if (!fields.required(name) || !fields.string(name, url)) return std::nullopt;
  auto data = parse_data_url(url);
  if (!data) {
    fields.decoding().fail(fields.path(name), "must be a data: URL with base64; kvern fetches nothing");
    return std::nullopt;
  }
  return ir::Image{std::move(data->media_type), std::move(data->base64)};
}

std::optional<ir::Document> decode_file(const Fields& fields) {
  Decoding& decoding = fields.decoding();
  refuse_file_id(fields);
  if (fields.has("file_url")) decoding.unsupported(fields.path("file_url"), "kvern fetches nothing; send `file_data`");
  ir::Document document;
  std::string data;
  fields.string("filename", Limit::kNameBytes, document.title);
  if (!fields.required("file_data") || !fields.string("file_data", data)) return std::nullopt;
  auto url = data.starts_with("data:") ? parse_data_url(data)
             : from_base64(data)       ? std::optional(DataUrl{"application/octet-stream", data})
                                       : std::nullopt;
  if (!url) {
    decoding.fail(fields.path("file_data"), "must be base64 or a data: URL with base64");
    return std::nullopt;
  }
  document.media_type = std::move(url->media_type);
  if (document.media_type.starts_with("text/")) {
    document.text = *from_base64(url->base64);
    if (is_utf8(document.text)) return document;
    decoding.fail(fields.path("file_data"), "must be UTF-8 where the file is text");
    return std::nullopt;
  }
  document.data = std::move(url->base64);
  return document;
}

}  // namespace kvern::api

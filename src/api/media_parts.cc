#include "api/media_parts.h"

#include <string>
#include <utility>

#include "api/base64.h"
#include "api/data_url.h"
#include "base/text.h"

namespace kvern::api {
namespace {

/// An id of an upload, of which there are none here.
void refuse_file_id(const Fields& object) {
  if (object.has("file_id"))
    object.decoding().unsupported(object.path("file_id"), "no files are kept; send the data itself");
}

}  // namespace

std::optional<ir::Part> image_of(const Fields& object, std::string_view key) {
  refuse_file_id(object);
  ir::Image image;
  std::string url;
  object.string("detail", Limit::kNameBytes, image.detail);
  if (!object.required(key) || !object.string(key, url)) return std::nullopt;
  auto data = parse_data_url(url);
  if (!data) {
    object.decoding().fail(object.path(key), "must be a data: URL with base64; kvern fetches nothing");
    return std::nullopt;
  }
  image.media_type = std::move(data->media_type);
  image.data = std::move(data->base64);
  return image;
}

std::optional<ir::Part> file_of(const Fields& object) {
  Decoding& decoding = object.decoding();
  refuse_file_id(object);
  if (object.has("file_url")) decoding.unsupported(object.path("file_url"), "kvern fetches nothing; send `file_data`");
  ir::Document document;
  std::string data;
  object.string("filename", Limit::kNameBytes, document.title);
  if (!object.required("file_data") || !object.string("file_data", data)) return std::nullopt;
  auto url = data.starts_with("data:") ? parse_data_url(data)
             : from_base64(data)       ? std::optional(DataUrl{"application/octet-stream", data})
                                       : std::nullopt;
  if (!url) {
    decoding.fail(object.path("file_data"), "must be base64 or a data: URL with base64");
    return std::nullopt;
  }
  document.media_type = std::move(url->media_type);
  if (document.media_type.starts_with("text/")) {
    document.text = *from_base64(url->base64);
    if (is_utf8(document.text)) return document;
    decoding.fail(object.path("file_data"), "must be UTF-8 where the file is text");
    return std::nullopt;
  }
  document.data = std::move(url->base64);
  return document;
}

}  // namespace kvern::api

#include "api/messages/messages_media.h"

#include <fmt/format.h>

#include "base/base64.h"

namespace kvern::api {
namespace {

constexpr std::string_view kPlain = "text/plain";

/// `media_type` and `data` of a source of type base64.
bool decode_bytes(const Fields& source, std::string& media_type, std::string& data) {
  Decoding& decoding = source.decoding();
  if (!source.required("media_type") || !source.string("media_type", Limit::kNameBytes, media_type)) return false;
  if (media_type.empty()) decoding.fail(source.path("media_type"), "must not be empty");
  if (!source.required("data") || !source.string("data", data)) return false;
  if (data.empty() || !from_base64(data)) decoding.fail(source.path("data"), "must be base64");
  return !decoding.failed();
}

void refuse_source(const Fields& source, std::string_view type, std::string_view taken) {
  Decoding& decoding = source.decoding();
  if (type == "url") return decoding.unsupported(source.path("type"), "nothing is fetched; send the bytes as base64");
  if (type == "file") return decoding.unsupported(source.path("type"), "no files are kept; send the bytes as base64");
  decoding.fail(source.path("type"), fmt::format("must be {}, not {}", taken, shown(type)));
}

/// A string, or an array of text blocks, joined.
bool decode_texts(const Fields& fields, std::string_view name, std::string& out) {
  if (!fields.required(name)) return false;
  const auto content = fields.find(name);
  Decoding& decoding = fields.decoding();
  const Path path = fields.path(name);
  if (content->is(json::Kind::kString)) {
    out = content->string();
    return true;
  }
  if (!content->is(json::Kind::kArray)) {
    decoding.wrong_type(path, "a string or an array of text blocks", content->kind());
    return false;
  }
  each_object(*content, Limit::kParts, path, decoding, [&](const Fields& block) {
    std::string type;
    std::string text;
    if (!block.required("type") || !block.string("type", type)) return;
    if (type != "text") return decoding.unsupported(block.path("type"), "only text inside a document");
    if (block.required("text") && block.string("text", text)) out += text;
  });
  return !decoding.failed();
}

}  // namespace

std::optional<ir::Image> decode_image(const Fields& block) {
  if (!block.required("source")) return std::nullopt;
  const auto object = block.object("source");
  if (!object) return std::nullopt;
  const Path path = block.path("source");
  const Fields source(*object, path, block.decoding());
  std::string type;
  if (!source.required("type") || !source.string("type", type)) return std::nullopt;
  ir::Image out;
  if (type != "base64") {
    refuse_source(source, type, "base64");
    return std::nullopt;
  }
  if (!decode_bytes(source, out.media_type, out.data)) return std::nullopt;
  return out;
}

std::optional<ir::Document> decode_document(const Fields& block) {
  if (!block.required("source")) return std::nullopt;
  const auto object = block.object("source");
  if (!object) return std::nullopt;
  const Path path = block.path("source");
  const Fields source(*object, path, block.decoding());
  std::string type;
  if (!source.required("type") || !source.string("type", type)) return std::nullopt;
  ir::Document out;
  block.string("title", out.title);
  block.string("context", out.context);
  if (type == "base64") {
    if (!decode_bytes(source, out.media_type, out.data)) return std::nullopt;
  } else if (type == "text") {
    out.media_type = kPlain;
    if (!source.required("data") || !source.string("data", out.text)) return std::nullopt;
  } else if (type == "content") {
    out.media_type = kPlain;
    if (!decode_texts(source, "content", out.text)) return std::nullopt;
  } else {
    refuse_source(source, type, "base64, text or content");
    return std::nullopt;
  }
  return out;
}

std::optional<ir::Document> decode_search_result(const Fields& block) {
  ir::Document out;
  out.media_type = kPlain;
  if (!block.required("source") || !block.string("source", out.context)) return std::nullopt;
  block.string("title", out.title);
  if (!decode_texts(block, "content", out.text)) return std::nullopt;
  return out;
}

}  // namespace kvern::api

#include "prompt/json_value.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "base/json_reader.h"

namespace kvern::prompt {
namespace {

jinja::value input_string(const std::string& text) {
  auto value = jinja::mk_val<jinja::value_string>(text);
  value->mark_input();
  return value;
}

/// null for a number beyond a double.
jinja::value number(const json::Value& from) {
  if (const auto integer = from.integer()) return jinja::mk_val<jinja::value_int>(*integer);
  const std::string_view text = from.raw();
  double real = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), real).ec != std::errc{}) return nullptr;
  return jinja::mk_val<jinja::value_float>(real);
}

/// Recursion is bounded by the depth that the document was read with. null ends everything.
jinja::value convert(const json::Value& from) {
  switch (from.kind()) {
    case json::Kind::kNull: return jinja::mk_val<jinja::value_none>();
    case json::Kind::kBool: return jinja::mk_val<jinja::value_bool>(from.boolean());
    case json::Kind::kNumber: return number(from);
    case json::Kind::kString: return input_string(from.string());
    case json::Kind::kArray: {
      auto array = jinja::mk_val<jinja::value_array>();
      for (const auto child : from.children()) {
        jinja::value value = convert(child.value);
        if (value == nullptr) return nullptr;
        array->push_back(std::move(value));
      }
      return array;
    }
    case json::Kind::kObject: break;
  }
  auto object = jinja::mk_val<jinja::value_object>();
  for (const auto child : from.children()) {
    jinja::value value = convert(child.value);
    if (value == nullptr) return nullptr;
    object->insert(input_string(std::string(child.key)), value);
  }
  return object;
}

}  // namespace

std::optional<jinja::value> json_value(std::string_view text) {
  const auto document = json::Document::parse(text, {});
  if (!document) return std::nullopt;
  jinja::value value = convert((*document)->root());
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace kvern::prompt

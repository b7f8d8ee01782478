// Any bytes: never a fault, and the verdict is simdjson's, but for what only one of them judges (depth, repeated keys,
// half surrogates, numbers beyond 64 bits). What is accepted comes out as valid UTF-8.
#include <simdjson.h>

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/json_reader.h"

namespace {

using kvern::json::Kind;
using kvern::json::Value;

void walk(Value value) {
  switch (value.kind()) {
    case Kind::kNull: break;
    case Kind::kBool: static_cast<void>(value.boolean()); break;
    case Kind::kNumber:
      static_cast<void>(value.number());
      static_cast<void>(value.integer());
      break;
    case Kind::kString: {
      const std::string text = value.string();
      KV_CHECK(simdjson::validate_utf8(text.data(), text.size()));
      break;
    }
    case Kind::kArray:
    case Kind::kObject:
      for (const auto& [key, child] : value.children()) {
        KV_CHECK(simdjson::validate_utf8(key.data(), key.size()));
        walk(child);
      }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto ours = kvern::json::Document::parse(text, {});
  if (ours) walk((*ours)->root());
  simdjson::dom::parser parser;
  const auto theirs = parser.parse(text).error();
  if (theirs == simdjson::SUCCESS) {
    KV_CHECK(ours.ok() || ours.error().message.find("twice") != std::string::npos ||
             ours.error().message.find("deeper") != std::string::npos);
  } else if (ours) {
    KV_CHECK(theirs == simdjson::STRING_ERROR || theirs == simdjson::NUMBER_ERROR);
  }
  return 0;
}

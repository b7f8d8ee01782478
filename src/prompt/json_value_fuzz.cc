// Any bytes as JSON: none or a value, which prints as JSON that reads back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "prompt/json_value.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = kvern::prompt::json_value(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!value) return 0;
  const std::string printed = jinja::value_to_json(*value);
  const auto again = kvern::prompt::json_value(printed);
  if (!again || jinja::value_to_json(*again) != printed) std::abort();
  return 0;
}

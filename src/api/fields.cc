#include "api/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace kvern::api {

std::string Path::str() const {
  std::string out = parent == nullptr ? "" : parent->str();
  if (index >= 0) return out + fmt::format("[{}]", index);
  if (!out.empty() && !name.empty()) out += '.';
  return out.append(name);
}

std::string shown(std::string_view text) {
  if (text.size() <= 64) return std::string(text);
  std::size_t end = 64;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

void Decoding::fail(const Path& path, std::string_view message, std::string_view detail) {
  if (fault_) return;
  std::string param = path.str();
  std::string text = param.empty() ? fmt::format("the body {}", message) : fmt::format("`{}` {}", param, message);
  fault_ = invalid(std::move(param), std::move(text));
  fault_->detail = detail;
}

void Decoding::unsupported(const Path& path, std::string_view what) {
  fail(path, fmt::format("is not supported yet: {}", what), "unsupported_parameter");
}

void Decoding::wrong_type(const Path& path, std::string_view wanted, json::Kind got) {
  fail(path, fmt::format("must be {}, not {}", wanted, json::described(got)));
}

bool Decoding::within(Limit limit, std::uint64_t amount, const Path& path) {
  if (amount <= limits_[limit]) return true;
  if (!fault_) fault_ = limits_.check(limit, amount, path.str());
  return false;
}

void Asked::list_others(json::Value object, std::string_view prefix, std::vector<std::string>& out) {
  constexpr std::size_t kMost = 16;
  std::ranges::sort(names_);
  std::size_t count = 0;
  for (const auto& [key, value] : object.children()) {
    if (std::ranges::binary_search(names_, key)) continue;
    if (++count <= kMost) out.push_back(fmt::format("{}{}", prefix, printable(shown(key))));
  }
  if (count > kMost) out.push_back(fmt::format("{} more fields", count - kMost));
}

std::optional<json::Value> Fields::find(std::string_view name) const {
  if (asked_ != nullptr) asked_->note(name);
  auto value = object_.find(name);
  if (value && value->is(json::Kind::kNull)) return std::nullopt;
  return value;
}

std::optional<json::Value> Fields::of_kind(std::string_view name, json::Kind kind) const {
  const auto value = find(name);
  if (!value || value->is(kind)) return value;
  decoding_.wrong_type(path(name), json::described(kind), value->kind());
  return std::nullopt;
}

bool Fields::boolean(std::string_view name, bool& out) const {
  const auto value = of_kind(name, json::Kind::kBool);
  if (value) out = value->boolean();
  return value.has_value();
}

bool Fields::string(std::string_view name, std::string& out) const {
  const auto value = of_kind(name, json::Kind::kString);
  if (value) out = value->string();
  return value.has_value();
}

bool Fields::string(std::string_view name, Limit limit, std::string& out) const {
  std::string text;
  if (!string(name, text) || !decoding_.within(limit, text.size(), path(name))) return false;
  out = std::move(text);
  return true;
}

bool Fields::number(std::string_view name, double low, double high, double& out, bool open) const {
  const auto value = of_kind(name, json::Kind::kNumber);
  if (!value) return false;
  const double number = value->number();
  if (number > high || number < low || (open && number == low)) {
    decoding_.fail(path(name), open ? fmt::format("must be above {} and at most {}", low, high)
                                    : fmt::format("must be between {} and {}", low, high));
    return false;
  }
  out = number;
  return true;
}

bool Fields::integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t& out) const {
  const auto value = find(name);
  if (!value) return false;
  const bool is_number = value->is(json::Kind::kNumber);
  const auto number = is_number ? value->integer() : std::nullopt;
  if (number && *number >= low && *number <= high) {
    out = *number;
    return true;
  }
  if (!is_number) {
    decoding_.wrong_type(path(name), "an integer", value->kind());
  } else {
    decoding_.fail(path(name), fmt::format("must be an integer between {} and {}", low, high));
  }
  return false;
}

bool Fields::required(std::string_view name) const {
  if (has(name)) return true;
  decoding_.fail(path(name), "is missing");
  return false;
}

}  // namespace kvern::api

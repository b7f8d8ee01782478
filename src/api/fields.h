// Typed access to the fields of a JSON object, with errors that name the field as the client knows it
// (`messages[2].content`). Decoders read straight through; the first fault is kept and later reads go on harmlessly, so
// that a decoder asks once at its end. A field that is null counts as absent, as OpenAI's optional fields do.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/limits.h"
#include "base/json_reader.h"
#include "base/result.h"

namespace kvern::api {

/// A place in a body, linked upward; built on the stack, spelled out only for a message.
struct Path {
  const Path* parent = nullptr;
  std::string_view name;    // a member...
  std::int64_t index = -1;  // ...or an element
  std::string str() const;
};
inline Path member_of(const Path& parent, std::string_view name) { return {&parent, name, -1}; }
inline Path element_of(const Path& parent, std::size_t index) {
  return {&parent, {}, static_cast<std::int64_t>(index)};
}

/// One decoding: the limits that hold and the first fault.
class Decoding {
 public:
  explicit Decoding(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const noexcept { return limits_; }
  bool failed() const noexcept { return fault_.has_value(); }
  const Error& fault() const noexcept { return *fault_; }
  /// Keeps the first of: "`<path>` <message>". `detail` is the code to show, where it is not the dialect's usual one.
  void fail(const Path& path, std::string_view message, std::string_view detail = {});
  /// A field that kvern knows and does not serve yet.
  void unsupported(const Path& path, std::string_view what);
  void wrong_type(const Path& path, std::string_view wanted, json::Kind got);
  /// False, and a fault, when over the limit.
  bool within(Limit limit, std::uint64_t amount, const Path& path);

 private:
  const Limits& limits_;
  std::optional<Error> fault_;
};

/// A string for a message: cut to 64 bytes at a character.
std::string shown(std::string_view text);

/// The names that a decoder has asked an object for, so that those it never asks for can be told.
class Asked {
 public:
  /// `name` is of static storage.
  void note(std::string_view name) { names_.push_back(name); }
  /// The members of `object` that nobody asked for, each behind `prefix`: printable, at most 16 of them and then how
  /// many more. O(n log m).
  void list_others(json::Value object, std::string_view prefix, std::vector<std::string>& out);

 private:
  std::vector<std::string_view> names_;
};

/// One object. Getters leave `out` alone and return false when the field is absent, null or at fault.
class Fields {
 public:
  /// `object` is one; the others outlive this. `asked` is told each name that is looked for.
  Fields(json::Value object, const Path& path, Decoding& decoding, Asked* asked = nullptr)
      : object_(object), path_(path), decoding_(decoding), asked_(asked) {}

  /// The field unless absent or null.
  std::optional<json::Value> find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).has_value(); }
  /// Whether it is there, be it null.
  bool is_said(std::string_view name) const { return object_.find(name).has_value(); }
  Path path(std::string_view name) const { return member_of(path_, name); }

  bool boolean(std::string_view name, bool& out) const;
  bool string(std::string_view name, std::string& out) const;
  bool string(std::string_view name, Limit limit, std::string& out) const;
  /// low <= value <= high; with `open` low itself is out.
  bool number(std::string_view name, double low, double high, double& out, bool open = false) const;
  bool integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t& out) const;
  bool integer(std::string_view name, std::int64_t low, std::int64_t high, std::integral auto& out) const {
    std::int64_t value = 0;
    if (!integer(name, low, high, value)) return false;
    out = static_cast<std::remove_reference_t<decltype(out)>>(value);
    return true;
  }
  std::optional<json::Value> array(std::string_view name) const { return of_kind(name, json::Kind::kArray); }
  std::optional<json::Value> object(std::string_view name) const { return of_kind(name, json::Kind::kObject); }
  /// Every member as it stands, null or not.
  json::Value::Range children() const { return object_.children(); }
  /// A fault if the field is absent or null.
  bool required(std::string_view name) const;

  Decoding& decoding() const noexcept { return decoding_; }

 private:
  std::optional<json::Value> of_kind(std::string_view name, json::Kind kind) const;
  json::Value object_;
  const Path& path_;
  Decoding& decoding_;
  Asked* const asked_;
};

/// Calls `each(Fields)` for every element of an array of objects, at most `limit` of them; ends at the first fault, and
/// an element that is no object is one.
template <typename Each>
void each_object(json::Value array, Limit limit, const Path& path, Decoding& decoding, Each each) {
  if (!decoding.within(limit, array.size(), path)) return;
  std::size_t index = 0;
  for (const auto& child : array.children()) {
    if (decoding.failed()) return;
    const Path place = element_of(path, index++);
    if (!child.value.is(json::Kind::kObject)) return decoding.wrong_type(place, "an object", child.value.kind());
    each(Fields(child.value, place, decoding));
  }
}
/// The same of a field that is an array, if it is there.
template <typename Each>
void each_object(const Fields& fields, std::string_view name, Limit limit, Each each) {
  const auto array = fields.array(name);
  if (array) each_object(*array, limit, fields.path(name), fields.decoding(), std::move(each));
}

}  // namespace kvern::api

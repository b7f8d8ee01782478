#include "app/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/secret.h"
#include "base/sha256.h"

namespace kvern::app {
namespace {

constexpr std::size_t kPrefixDigits = 32;

Error fault(const KeySpec& spec, std::string_view what) {
  return fail(ErrorCode::kInvalidRequest, fmt::format("{}: the key `{}` {}", spec.where, spec.name, what));
}

Result<std::string> digest_of(const KeySpec& spec, const std::function<const char*(const char*)>& lookup) {
  if (!spec.sha256.empty()) return spec.sha256;
  const char* value = lookup(spec.env.c_str());
  if (value == nullptr || *value == '\0') {
    return fault(spec, fmt::format("is to come from the variable {}, which is not set", spec.env));
  }
  return sha256_hex(value);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// What follows `Bearer`; empty for another scheme, which no key is.
std::string_view bearer(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  value = trimmed(value);
  if (value.size() <= kScheme.size() || !net::equal_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return {};
  return trimmed(value.substr(kScheme.size()));
}

/// The one key of a request; an error without one, or with several that differ.
Result<std::string_view> presented_key(const net::Headers& headers) {
  std::optional<std::string_view> found;
  for (const auto& [name, value] : headers) {
    const bool is_bearer = net::equal_ignoring_case(name, "authorization");
    if (!is_bearer && !net::equal_ignoring_case(name, "x-api-key")) continue;
    const std::string_view key = is_bearer ? bearer(value) : trimmed(value);
    if (found && *found != key) {
      return fail(ErrorCode::kUnauthorized, "The request brings several keys that differ: send one.");
    }
    found = key;
  }
  if (!found) {
    return fail(ErrorCode::kUnauthorized,
                "This server asks for a key: send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`.");
  }
  return *found;
}

/// Puts the tenant that `x-tenant-id` names in place of the key's.
std::optional<Error> take_tenant(const net::Headers& headers, const api::Limits& limits, std::string& tenant) {
  std::optional<std::string_view> named;
  for (const auto& [name, value] : headers) {
    if (!net::equal_ignoring_case(name, "x-tenant-id")) continue;
    // A proxy that adds its own must not be outdone by one that the client sent.
    if (named) return invalid("x-tenant-id", "x-tenant-id stands more than once");
    named = trimmed(value);
  }
  if (!named || named->empty()) return std::nullopt;
  if (auto error = limits.check(api::Limit::kIdBytes, named->size(), "x-tenant-id")) return error;
  tenant = *named;
  return std::nullopt;
}

}  // namespace

Result<Keys> Keys::make(std::span<const KeySpec> specs, const std::function<const char*(const char*)>& lookup) {
  Keys keys;
  std::set<std::string_view> names;
  for (const KeySpec& spec : specs) {
    if (!names.insert(spec.name).second) return fault(spec, "has the name of another one");
    auto digest = digest_of(spec, lookup);
    if (!digest) return std::move(digest).error();
    const std::string prefix = digest->substr(0, kPrefixDigits);
    const auto [first, last] = keys.by_digest_.equal_range(prefix);
    for (auto at = first; at != last; ++at) {
      if (at->second.digest != *digest) continue;
      return fault(spec, fmt::format("is the same key as `{}`: which of the two a request came with could not be told",
                                     at->second.spec.name));
    }
    keys.by_digest_.emplace(prefix, Entry{*std::move(digest), spec});
  }
  return keys;
}

const KeySpec* Keys::find(std::string_view presented) const {
  const Secret digest(sha256_hex(presented));
  const auto [first, last] = by_digest_.equal_range(std::string(digest.reveal().substr(0, kPrefixDigits)));
  const KeySpec* found = nullptr;
  for (auto at = first; at != last; ++at) {
    if (digest.equals(at->second.digest)) found = &at->second.spec;
  }
  return found;
}

Result<Caller> authenticate(const net::RequestHead& head, const Keys& keys, api::Guard guard,
                            const api::Limits& limits) {
  Caller caller;
  bool names_tenant = true;
  if (keys.empty()) {
    caller.admin = true;
  } else if (guard == api::Guard::kOpen) {
    return caller;
  } else {
    const auto presented = presented_key(head.headers);
    if (!presented) return presented.error();
    const KeySpec* spec = keys.find(*presented);
    if (spec == nullptr) return fail(ErrorCode::kUnauthorized, "The key is not one of this server's.");
    if (guard == api::Guard::kAdmin && !spec->admin) {
      return fail(ErrorCode::kForbidden, "This is for admin keys (`admin: true` in the config) only.");
    }
    caller = {spec->name, spec->tenant, spec->admin};
    names_tenant = spec->trusted;
  }
  if (names_tenant) {
    if (auto error = take_tenant(head.headers, limits, caller.tenant)) return *std::move(error);
  }
  return caller;
}

}  // namespace kvern::app

// Who may call, by the keys of the config: each key is known by its SHA-256 only. Immutable once made, so shared by all
// loops without locks. A check costs one SHA-256 of what the request brings and one look into a map, whoever asks.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/limits.h"
#include "api/registry.h"
#include "base/result.h"
#include "net/request_reader.h"

namespace kvern::app {

/// One entry of `keys:` in the config.
struct KeySpec {
  std::string name;      // for the log
  std::string tenant;    // whose requests these are
  std::string sha256;    // of the key, 64 lower-case hex digits; or
  std::string env;       // the variable that holds the key itself
  bool trusted = false;  // a proxy's: `x-tenant-id` says whose request it is
  bool admin = false;    // may also see metrics, workers and decisions
  std::string where;     // "kvern.yaml line 3", for errors
};

/// Who sent a request.
struct Caller {
  std::string key;  // its name in the config; empty where no key was asked for
  std::string tenant = "default";
  bool admin = false;  // also whoever calls a server without keys
};

class Keys {
 public:
  /// None: whoever reaches the server may use it.
  Keys() = default;
  /// Errors are for the person at the terminal and name the entry: a key of no digest, two of one digest, a variable
  /// that is not set. `lookup` is getenv, or a test's.
  static Result<Keys> make(std::span<const KeySpec> specs, const std::function<const char*(const char*)>& lookup);

  bool empty() const noexcept { return by_digest_.empty(); }
  /// The entry of a key that a request brings, or nullptr. Digests are compared whole, in constant time.
  const KeySpec* find(std::string_view presented) const;

 private:
  struct Entry {
    std::string digest;
    KeySpec spec;
  };
  std::unordered_multimap<std::string, Entry> by_digest_;  // by the first half of the digest
};

/// Who sends this request, if `guard` lets him in: kUnauthorized without a known key, kForbidden for an admin's route
/// with a tenant's key. A request may bring its key as `Authorization: Bearer` or as `x-api-key`; several must be
/// equal. An `x-tenant-id` that counts is refused when it is over its limit or stands twice: two names must not become
/// one.
Result<Caller> authenticate(const net::RequestHead& head, const Keys& keys, api::Guard guard,
                            const api::Limits& limits);

}  // namespace kvern::app

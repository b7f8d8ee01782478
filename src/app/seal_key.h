// The key that seals what clients keep for kvern (base/seal.h). One file of 64 hex digits: the one a setting names,
// shared by all frontends that are to open each other's seals; otherwise `seal.key` in the state directory, made at the
// first start with mode 0600.
#pragma once

#include <string>

#include "base/result.h"
#include "base/secret.h"

namespace kvern::app {

struct SealKey {
  Secret key;
  std::string warning;  // not empty: why the key lives only as long as this process
};

/// `file` wins over `state_dir`. Errors are for start-up: a named file that cannot be used, a made one that others may
/// read. A state directory that cannot be written costs only a warning. Two processes that start at once get one key.
Result<SealKey> load_seal_key(const std::string& file, const std::string& state_dir);

/// $XDG_STATE_HOME/kvern, or ~/.local/state/kvern. Empty where neither is known.
std::string default_state_dir();

}  // namespace kvern::app

// The token id as every engine numbers it.
#pragma once

#include <cstdint>
#include <vector>

namespace kvern {

/// Index into a model's vocabulary, >= 0. Signed since engines and wires sign it; bytes from outside are range-checked.
using TokenId = std::int32_t;
using Tokens = std::vector<TokenId>;

}  // namespace kvern

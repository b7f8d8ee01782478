// The token id as every engine numbers it.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

namespace kvern {

/// Index into a model's vocabulary, >= 0. Signed since engines and wires sign it; bytes from outside are range-checked.
using TokenId = std::int32_t;
using Tokens = std::vector<TokenId>;
/// Those of one step of a model: mostly one, which then needs no memory of its own.
using StepTokens = boost::container::small_vector<TokenId, 2>;

}  // namespace kvern

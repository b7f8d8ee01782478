// The makers of the strategies, for the array in strategy.cc.
#pragma once

#include <memory>

#include "router/strategy.h"

namespace kvern::router {

std::unique_ptr<Strategy> make_least_loaded();
std::unique_ptr<Strategy> make_round_robin();

}  // namespace kvern::router

#pragma once

#include <string_view>

namespace kvern::app {

/// From CMakeLists.txt's project(VERSION).
inline constexpr std::string_view kVersion = KVERN_VERSION;

}  // namespace kvern::app

#include "kv/kv_event.h"

#include <utility>

namespace kvern::kv {

std::optional<Tier> tier_of(const std::optional<std::string>& medium) {
  if (!medium) return Tier::kDevice;
  static constexpr std::pair<std::string_view, Tier> kMedia[] = {
      {"GPU", Tier::kDevice},        {"DEVICE", Tier::kDevice},    {"CPU", Tier::kHost},
      {"CPU_PINNED", Tier::kHost},   {"CPU_TIER1", Tier::kHost},   {"CPU_TIER2", Tier::kDisk},
      {"DISK", Tier::kDisk},         {"NVME", Tier::kDisk},        {"STORAGE", Tier::kDisk},
      {"EXTERNAL", Tier::kExternal}, {"NETWORK", Tier::kExternal}, {"REMOTE", Tier::kExternal},
      {"SHARED", Tier::kExternal},
  };
  for (const auto& [name, tier] : kMedia) {
    if (name == *medium) return tier;
  }
  return std::nullopt;
}

}  // namespace kvern::kv

#include "app/store/open_store.h"

#include <filesystem>
#include <utility>

#include "app/seal_key.h"

namespace kvern::app {

Result<std::unique_ptr<SqliteResponseStore>> open_response_store(const Settings& settings, const Clock& clock, Log& log,
                                                                 Metrics& metrics) {
  if (settings.responses_file == "off") return std::unique_ptr<SqliteResponseStore>();
  const bool asked_for = !settings.responses_file.empty() || !settings.state_dir.empty();
  std::string path = settings.responses_file;
  if (path.empty()) {
    const std::string folder = settings.state_dir.empty() ? default_state_dir() : settings.state_dir;
    if (!folder.empty()) path = (std::filesystem::path(folder) / "responses.db").string();
  }
  Result<std::unique_ptr<ResponseTables>> tables =
      fail(ErrorCode::kUnavailable, "neither --state-dir nor --responses-file nor HOME is set");
  if (!path.empty()) {
    tables = ResponseTables::open(
        path, {std::uint64_t{settings.responses_mb} << 20U, std::chrono::hours(24) * settings.responses_days});
  }
  if (tables) return std::make_unique<SqliteResponseStore>(*std::move(tables), clock, log, metrics);
  if (asked_for || tables.error().code != ErrorCode::kUnavailable) return tables.error();
  log.warn("responses are not stored", {{"why", tables.error().message}});
  return std::unique_ptr<SqliteResponseStore>();
}

}  // namespace kvern::app

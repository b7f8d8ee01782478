#include "app/seal_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/seal.h"

namespace kvern::app {
namespace {

constexpr std::size_t kFileBytesMax = 256;
constexpr std::string_view kDigits = "0123456789abcdef";

std::string to_hex(const Secret& key) {
  std::string out;
  for (const char c : key.reveal()) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

std::optional<Secret> from_hex(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() != 2 * Seal::kKeyBytes) return std::nullopt;
  std::string key;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto high = kDigits.find(text[i]);
    const auto low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    key += static_cast<char>(high * 16 + low);
  }
  return Secret(std::move(key));
}

Result<SealKey> read_key(const std::string& path) {
  const auto text = read_file(path, kFileBytesMax);
  if (!text) return text.error();
  auto key = from_hex(*text);
  if (key) return SealKey{*std::move(key), {}};
  return fail(ErrorCode::kInvalidRequest,
              fmt::format("{} holds no key: it needs {} hex digits in lower case (openssl rand -hex {})", path,
                          2 * Seal::kKeyBytes, Seal::kKeyBytes));
}

std::error_code last_error() { return {errno, std::generic_category()}; }

/// Writes a fresh key under a name of its own and links it to `path`: whoever comes second finds the first one's.
std::error_code make_file(const std::string& path) {
  std::string draft = path + ".XXXXXX";
  const int fd = mkostemp(draft.data(), O_CLOEXEC);  // with mode 0600
  if (fd < 0) return last_error();
  const std::string text = to_hex(make_seal_key()) + "\n";
  std::error_code fault;
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(fd) != 0) fault = last_error();
  close(fd);
  if (!fault && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) fault = last_error();
  unlink(draft.c_str());
  return fault;
}

SealKey of_this_process(std::string_view why) {
  return {make_seal_key(), fmt::format("no key can be kept ({}): reasoning that clients keep encrypted will not open "
                                       "after a restart or on another frontend",
                                       why)};
}

}  // namespace

Result<SealKey> load_seal_key(const std::string& file, const std::string& state_dir) {
  if (!file.empty()) return read_key(file);
  if (state_dir.empty()) return of_this_process("neither --state-dir nor HOME is set");
  const std::string path = (std::filesystem::path(state_dir) / "seal.key").string();
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    std::error_code fault;
    std::filesystem::create_directories(state_dir, fault);
    if (!fault) fault = make_file(path);
    if (fault) return of_this_process(fmt::format("{}: {}", path, fault.message()));
    if (stat(path.c_str(), &status) != 0) return of_this_process(fmt::format("{}: {}", path, last_error().message()));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(
        ErrorCode::kInvalidRequest,
        fmt::format("{} may be used by others than its owner: chmod 600 it, or delete it to get a new key", path));
  }
  return read_key(path);
}

std::string default_state_dir() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto home = variable("XDG_STATE_HOME"); !home.empty()) return (home / "kvern").string();
  if (const auto home = variable("HOME"); !home.empty()) return (home / ".local/state/kvern").string();
  return {};
}

}  // namespace kvern::app

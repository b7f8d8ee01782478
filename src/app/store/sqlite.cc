#include "app/store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace kvern::app {
namespace {

/// How long another process may hold the file as this one starts: one that is just ending lets go within that.
constexpr int kBusyMs = 1000;

const char* advice_for(int code) {
  switch (code & 0xFF) {
    case SQLITE_FULL: return "the disk, or the room given to stored responses, is full: free some";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM: return "its file cannot be written";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return "its file is damaged: move it away and start again";
    case SQLITE_TOOBIG: return "the response is too large";
    case SQLITE_NOMEM: return "there is no memory left";
    default: return "the disk does not take it";
  }
}

}  // namespace

Error sqlite_error(int code) {
  Error error = fail(
      ErrorCode::kUnavailable,
      fmt::format("The store of responses failed ({}). Requests with `store: false` are served.", advice_for(code)));
  error.detail = "storage_failed";
  error.retry_after = std::chrono::seconds(10);
  return error;
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(sqlite3* database, std::string_view sql, int& code) {
  sqlite3_stmt* statement = nullptr;
  const int prepared = sqlite3_prepare_v3(database, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                          &statement, nullptr);
  statement_.reset(statement);
  if (prepared != SQLITE_OK) code = prepared;
}

void Statement::bind(int place, std::int64_t value) { sqlite3_bind_int64(statement_.get(), place, value); }

void Statement::bind(int place, std::string_view text) {
  // A null pointer would be bound as NULL.
  sqlite3_bind_text64(statement_.get(), place, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
}

void Statement::bind_null(int place) { sqlite3_bind_null(statement_.get(), place); }

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return sqlite_error(code);
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
}

void Statement::reset() {
  sqlite3_reset(statement_.get());  // repeats the failure of step, which was seen
  sqlite3_clear_bindings(statement_.get());
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<Database> Database::open(const std::string& path) {
  Database database;
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  database.database_.reset(raw);
  if (code != SQLITE_OK) return sqlite_error(code);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyMs);
  return database;
}

Result<void> Database::run(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return sqlite_error(code);
  return {};
}

Result<std::int64_t> Database::ask(const char* sql) {
  int code = SQLITE_OK;
  Statement statement(database_.get(), sql, code);
  if (code != SQLITE_OK) return sqlite_error(code);
  auto row = statement.step();
  if (!row) return std::move(row).error();
  return *row ? statement.integer(0) : 0;
}

int Database::code() const { return sqlite3_errcode(database_.get()); }

std::string Database::words() const { return sqlite3_errmsg(database_.get()); }

}  // namespace kvern::app

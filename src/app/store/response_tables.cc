#include "app/store/response_tables.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace kvern::app {
namespace {

constexpr std::int64_t kApplicationId = 0x6B76726E;  // "kvrn"
constexpr std::int64_t kVersion = 2;
constexpr int kPageBytes = 4096;
/// A step of trimming: milliseconds of work between requests.
constexpr int kRowsAStep = 16;
constexpr std::int64_t kPagesAStep = 256;

constexpr const char* kSchema = R"(
  CREATE TABLE conversations(
    id INTEGER PRIMARY KEY,    -- of its first turn
    used INTEGER NOT NULL,     -- counts up: the order of last use
    used_at INTEGER NOT NULL   -- unix time
  );
  CREATE UNIQUE INDEX conversations_used ON conversations(used);
  CREATE TABLE responses(
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    depth INTEGER NOT NULL,    -- turns before it
    previous INTEGER,
    used INTEGER NOT NULL,     -- that of its conversation when it was written
    tenant TEXT NOT NULL,
    background INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    input TEXT NOT NULL,
    answer TEXT NOT NULL,
    events TEXT NOT NULL
  );
  CREATE INDEX responses_conversation ON responses(conversation, depth);
  CREATE INDEX responses_previous ON responses(previous);
  CREATE INDEX responses_used ON responses(conversation, used);
)";

std::int64_t key_of(RequestId id) { return std::bit_cast<std::int64_t>(id.value); }
RequestId id_of(std::int64_t key) { return RequestId{std::bit_cast<std::uint64_t>(key)}; }

Error unusable(ErrorCode code, const std::string& path, std::string_view why) {
  return fail(code, fmt::format("the store of responses {}: {}. --responses-file names another, and with `off` "
                                "nothing is stored.",
                                path, why));
}

/// SQLite takes a file shorter than its header for an empty database, and would write over it.
bool may_be_database(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);  // https://www.sqlite.org/fileformat.html
  std::ifstream file(path, std::ios::binary);
  std::array<char, kMagic.size()> head{};
  file.read(head.data(), head.size());
  const auto size = static_cast<std::size_t>(file.gcount());
  return size == 0 || std::string_view(head.data(), size) == kMagic;
}

/// Made before SQLite sees it, whose own files are readable by all; the log beside it gets the same mode.
Result<void> make_file(const std::string& path) {
  std::error_code fault;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, fault);
  const int file = fault ? -1 : open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) {
    close(file);
    return {};
  }
  if (!fault && errno == EEXIST) {
    if (!may_be_database(path)) {
      return unusable(ErrorCode::kInvalidRequest, path, "this is no database, or a damaged one; move it away");
    }
    if (chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0) return {};
  }
  if (!fault) fault = {errno, std::generic_category()};
  return unusable(ErrorCode::kUnavailable, path, fault.message());
}

Error cannot_open(const Database& database, const std::string& path) {
  switch (database.code() & 0xFF) {
    case SQLITE_BUSY:
      return unusable(ErrorCode::kUnavailable, path, "another process uses it; each needs a file of its own");
    case SQLITE_NOTADB:
      return unusable(ErrorCode::kInvalidRequest, path, "this is no database, or a damaged one; move it away");
    case SQLITE_CORRUPT:
      return unusable(ErrorCode::kInvalidRequest, path, "it is damaged; move it away to start afresh");
    default: return unusable(ErrorCode::kUnavailable, path, database.words());
  }
}

/// Whose file it is, before anything is written to it.
Result<bool> is_fresh(Database& database, const std::string& path) {
  const auto application = database.ask("PRAGMA application_id");
  const auto version = database.ask("PRAGMA user_version");
  const auto tables = database.ask("SELECT count(*) FROM sqlite_schema");
  if (!application || !version || !tables) return cannot_open(database, path);
  if (*tables == 0 && *application == 0) return true;
  if (*application != kApplicationId) {
    return unusable(ErrorCode::kInvalidRequest, path, "this is a database of another program");
  }
  if (*version != kVersion) {
    return unusable(
        ErrorCode::kInvalidRequest, path,
        fmt::format("it has version {}, this kvern knows {}; move it away to start afresh", *version, kVersion));
  }
  return false;
}

}  // namespace

ResponseTables::ResponseTables(Database database, const StoreBounds& bounds)
    : database_(std::move(database)), bounds_(bounds) {}

Result<std::unique_ptr<ResponseTables>> ResponseTables::open(const std::string& path, const StoreBounds& bounds) {
  if (auto made = make_file(path); !made) return made.error();
  auto opened = Database::open(path);
  if (!opened) return unusable(ErrorCode::kUnavailable, path, "it cannot be opened");
  std::unique_ptr<ResponseTables> tables(new ResponseTables(*std::move(opened), bounds));
  Database& database = tables->database_;
  const auto fresh = is_fresh(database, path);
  if (!fresh) return fresh.error();
  const std::string settings = fmt::format(
      "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON; PRAGMA temp_store=MEMORY;"
      "PRAGMA locking_mode=EXCLUSIVE; {} PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
      "PRAGMA journal_size_limit=16777216; PRAGMA max_page_count={};",
      *fresh ? "PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL;" : "", 2 * bounds.bytes_max / kPageBytes);
  // The first transaction takes the lock, which is then kept.
  if (!database.run(settings.c_str()) || !database.run("BEGIN IMMEDIATE")) return cannot_open(database, path);
  if (*fresh) {
    const std::string identity =
        fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplicationId, kVersion);
    if (!database.run(kSchema) || !database.run(identity.c_str())) return cannot_open(database, path);
  }
  if (!database.run("COMMIT")) return cannot_open(database, path);
  if (auto prepared = tables->prepare(); !prepared) return cannot_open(database, path);
  return tables;
}

Result<void> ResponseTables::prepare() {
  int code = SQLITE_OK;
  const auto statement = [&](std::string_view sql) { return Statement(database_.get(), sql, code); };
  place_ = statement("SELECT conversation, depth, tenant FROM responses WHERE id = ?");
  conversation_ = statement("SELECT coalesce(max(used), 0) + 1 FROM conversations");
  put_ = statement(
      "INSERT INTO responses(id, conversation, depth, previous, used, tenant, background, first_event, input, answer,"
      " events) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
      " ON CONFLICT(id) DO UPDATE SET used = excluded.used, background = excluded.background,"
      " first_event = excluded.first_event, input = excluded.input, answer = excluded.answer,"
      " events = excluded.events");
  touch_ = statement(
      "INSERT INTO conversations(id, used, used_at) VALUES(?, ?, ?)"
      " ON CONFLICT(id) DO UPDATE SET used = excluded.used, used_at = excluded.used_at");
  find_ =
      statement("SELECT tenant, previous, background, input, answer, events, first_event FROM responses WHERE id = ?");
  turn_ = statement("SELECT tenant, previous, background, input, answer FROM responses WHERE id = ?");
  erase_ = statement("DELETE FROM responses WHERE id = ? AND tenant = ? RETURNING conversation");
  forget_ = statement(
      "DELETE FROM conversations WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM responses WHERE conversation = ?1)");
  oldest_ = statement("SELECT id, used_at FROM conversations ORDER BY used LIMIT 1");
  drop_rows_ = statement(
      "DELETE FROM responses WHERE id IN"
      " (SELECT id FROM responses WHERE conversation = ? ORDER BY depth DESC LIMIT ?)");
  drop_leaf_ = statement(
      "DELETE FROM responses WHERE id ="
      " (SELECT id FROM responses AS turn INDEXED BY responses_used WHERE conversation = ? AND used != (SELECT "
      "max(used) FROM conversations)"
      " AND NOT EXISTS (SELECT 1 FROM responses WHERE previous = turn.id) ORDER BY used LIMIT 1) RETURNING id");
  drop_events_ = statement(
      "UPDATE responses SET events = '' WHERE id ="
      " (SELECT id FROM responses INDEXED BY responses_used WHERE conversation = ?"
      " AND used != (SELECT max(used) FROM conversations) AND events != '' ORDER BY used LIMIT 1) RETURNING id");
  drop_last_ = statement(
      "DELETE FROM responses WHERE id ="
      " (SELECT id FROM responses INDEXED BY responses_used WHERE conversation = ? ORDER BY used DESC LIMIT 1)"
      " RETURNING id");
  last_is_ = statement(
      "UPDATE conversations SET used = (SELECT coalesce(max(used), 0) FROM responses WHERE conversation = ?1)"
      " WHERE id = ?1 RETURNING id");
  if (code != SQLITE_OK) return sqlite_error(code);
  return {};
}

Result<void> ResponseTables::begin() { return database_.run("BEGIN IMMEDIATE"); }
Result<void> ResponseTables::commit() { return database_.run("COMMIT"); }
void ResponseTables::roll_back() {
  // SQLite has rolled back by itself after some failures.
  if (sqlite3_get_autocommit(database_.get()) == 0) (void)database_.run("ROLLBACK");
}

/// Where a turn stands among others.
struct ResponseTables::Row {
  std::int64_t conversation = 0;
  std::int64_t depth = 0;
};

Result<void> ResponseTables::put(const pipeline::StoredResponse& response, std::chrono::seconds now) {
  Row row{key_of(response.id), 0};
  {
    Use own(place_);
    own->bind(1, key_of(response.id));
    auto found = own->step();
    if (!found) return found.error();
    if (*found) {
      if (own->text(2) != response.tenant) return fail(ErrorCode::kInternal, "an id of two tenants");
      row = {own->integer(0), own->integer(1)};
    } else if (response.previous) {
      own->reset();
      own->bind(1, key_of(*response.previous));
      found = own->step();
      if (!found) return found.error();
      if (*found && own->text(2) == response.tenant) row = {own->integer(0), own->integer(1) + 1};
    }
  }
  std::int64_t use = 0;
  {
    Use next(conversation_);
    auto found = next->step();
    if (!found) return found.error();
    use = next->integer(0);
  }
  {
    Use touch(touch_);
    touch->bind(1, row.conversation);
    touch->bind(2, use);
    touch->bind(3, std::int64_t{now.count()});
    if (auto done = touch->step(); !done) return done.error();
  }
  Use put(put_);
  put->bind(1, key_of(response.id));
  put->bind(2, row.conversation);
  put->bind(3, row.depth);
  response.previous ? put->bind(4, key_of(*response.previous)) : put->bind_null(4);
  put->bind(5, use);
  put->bind(6, response.tenant);
  put->bind(7, std::int64_t{response.background});
  put->bind(8, std::bit_cast<std::int64_t>(response.first_event));
  put->bind(9, response.input);
  put->bind(10, response.answer);
  put->bind(11, response.events);
  if (auto done = put->step(); !done) return done.error();
  return {};
}

namespace {

/// The columns that find and turn share.
pipeline::StoredResponse read_row(RequestId id, const Statement& row) {
  pipeline::StoredResponse out;
  out.id = id;
  out.tenant = row.text(0);
  if (!row.is_null(1)) out.previous = id_of(row.integer(1));
  out.background = row.integer(2) != 0;
  out.input = row.text(3);
  out.answer = row.text(4);
  return out;
}

}  // namespace

Result<pipeline::StoredResponse> ResponseTables::find(const std::string& tenant, RequestId id) {
  Use row(find_);
  row->bind(1, key_of(id));
  auto found = row->step();
  if (!found) return found.error();
  if (!*found || row->text(0) != tenant) return pipeline::response_not_found();
  pipeline::StoredResponse out = read_row(id, find_);
  out.events = row->text(5);
  out.first_event = std::bit_cast<std::uint64_t>(row->integer(6));
  return out;
}

Result<std::vector<pipeline::StoredResponse>> ResponseTables::history(const std::string& tenant, RequestId id,
                                                                      std::uint64_t bytes_max) {
  std::vector<pipeline::StoredResponse> out;
  std::uint64_t bytes = 0;
  for (std::optional<RequestId> next = id; next;) {
    Use row(turn_);
    row->bind(1, key_of(*next));
    auto found = row->step();
    if (!found) return found.error();
    if (!*found || row->text(0) != tenant) return pipeline::response_not_found();
    out.push_back(read_row(*next, turn_));
    bytes += out.back().input.size() + out.back().answer.size();
    if (bytes > bytes_max) {
      return fail(ErrorCode::kTooLarge, fmt::format("The stored conversation has more than {} bytes.", bytes_max));
    }
    next = out.back().previous;
  }
  std::ranges::reverse(out);
  return out;
}

Result<void> ResponseTables::erase(const std::string& tenant, RequestId id) {
  std::int64_t conversation = 0;
  {
    Use row(erase_);
    row->bind(1, key_of(id));
    row->bind(2, tenant);
    auto found = row->step();
    if (!found) return found.error();
    if (!*found) return pipeline::response_not_found();
    conversation = row->integer(0);
    if (auto done = row->step(); !done) return done.error();
  }
  Use forget(forget_);
  forget->bind(1, conversation);
  if (auto done = forget->step(); !done) return done.error();
  return {};
}

Result<std::uint64_t> ResponseTables::bytes() {
  const auto pages = database_.ask("PRAGMA page_count");
  const auto unused = database_.ask("PRAGMA freelist_count");
  if (!pages || !unused) return pages ? unused.error() : pages.error();
  return static_cast<std::uint64_t>(*pages - *unused) * kPageBytes;
}

Result<bool> ResponseTables::give_pages_back() {
  const auto unused = database_.ask("PRAGMA freelist_count");
  if (!unused) return unused.error();
  // Some stay for what comes next.
  if (*unused <= 2 * kPagesAStep) return false;
  if (auto done = database_.run(fmt::format("PRAGMA incremental_vacuum({})", kPagesAStep).c_str()); !done) {
    return done.error();
  }
  return true;
}

Result<bool> ResponseTables::drop_old(std::int64_t conversation) {
  Use rows(drop_rows_);
  rows->bind(1, conversation);
  rows->bind(2, std::int64_t{kRowsAStep});
  if (auto done = rows->step(); !done) return done.error();
  return true;
}

Result<bool> ResponseTables::one_of(Statement& statement, std::int64_t conversation) {
  Use one(statement);
  one->bind(1, conversation);
  auto found = one->step();
  if (!found || !*found) return found;
  if (auto done = one->step(); !done) return done.error();
  return true;
}

Result<bool> ResponseTables::drop_leaves(std::int64_t conversation) {
  for (int dropped = 0; dropped < kRowsAStep; ++dropped) {
    const auto used = bytes();
    if (!used) return used.error();
    if (*used <= bounds_.bytes_max) return dropped > 0;
    auto done = one_of(drop_leaf_, conversation);
    if (done && !*done) done = one_of(drop_events_, conversation);
    if (done && !*done && *used > bounds_.bytes_max / 2 * 3) {
      done = one_of(drop_last_, conversation);
      if (done) done = one_of(last_is_, conversation);
    }
    if (!done) return done.error();
    if (!*done) return dropped > 0;
  }
  return true;
}

Result<bool> ResponseTables::trim(std::chrono::seconds now) {
  std::int64_t conversation = 0;
  bool old = false;
  {
    Use oldest(oldest_);
    auto found = oldest->step();
    if (!found) return found.error();
    if (!*found) return give_pages_back();
    conversation = oldest->integer(0);
    old = oldest->integer(1) < (now - bounds_.age_max).count();
  }
  const auto used = bytes();
  if (!used) return used.error();
  if (!old && *used <= bounds_.bytes_max) return give_pages_back();
  if (auto begun = begin(); !begun) return begun.error();
  auto dropped = old ? drop_old(conversation) : drop_leaves(conversation);
  if (dropped && *dropped) {
    Use forget(forget_);
    forget->bind(1, conversation);
    if (auto done = forget->step(); !done) dropped = done.error();
  }
  if (dropped && *dropped) {
    if (auto committed = commit(); !committed) dropped = committed.error();
  }
  if (dropped && *dropped) return true;
  roll_back();
  return dropped ? give_pages_back() : dropped;
}

}  // namespace kvern::app

// SQLite as values and Results: a connection, a prepared statement, a transaction. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kvern::app {

/// What SQLite says of the last call, as an Error for clients: no path, no SQL, and what to do. kUnavailable.
Error sqlite_error(int code);

/// A prepared statement; its parameters are bound in order, then it is stepped through. Borrows text until reset.
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* database, std::string_view sql, int& code);

  void bind(int place, std::int64_t value);
  void bind(int place, std::string_view text);
  void bind_null(int place);
  /// True: a row is there. False: done.
  Result<bool> step();
  std::int64_t integer(int column) const;
  bool is_null(int column) const;
  std::string text(int column) const;
  /// Ready for the next use; lets go of what was bound.
  void reset();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Resets a statement when its use ends.
class Use {
 public:
  explicit Use(Statement& statement) : statement_(statement) {}
  ~Use() { statement_.reset(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Statement* operator->() { return &statement_; }

 private:
  Statement& statement_;
};

class Database {
 public:
  /// Opens or makes the file. Errors are SQLite's code; the message is for start-up.
  static Result<Database> open(const std::string& path);
  sqlite3* get() const { return database_.get(); }
  Result<void> run(const char* sql);
  /// The first column of the first row.
  Result<std::int64_t> ask(const char* sql);
  /// SQLite's own code and words for the last failure, for logs and start-up.
  int code() const;
  std::string words() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace kvern::app

// Stored responses in one SQLite file, as plain calls that wait for the disk: response_store.h puts them on a thread.
//
// A row is one turn: its own input and answer and the id of the turn before, so a conversation costs what was said in
// it once. Turns that continue one another are a conversation, and it may branch. The one used longest ago goes first,
// from its ends: of a branch its newest turn, of branches the one written longest ago, so no turn that is left has lost
// what it continues.
//
// Durability: WAL with synchronous=NORMAL. A commit is a write to the log that the kernel has when it returns, so no
// end of the process loses it, and there is no fsync per request; a power cut may lose the last seconds, never the
// file. OFF would save only the fsync per checkpoint and risk the file. The file is locked for one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/store/sqlite.h"
#include "pipeline/response_store.h"

namespace kvern::app {

struct StoreBounds {
  std::uint64_t bytes_max = 1ULL << 30U;                      // of what is stored; at twice that nothing more is taken
  std::chrono::seconds age_max{std::chrono::hours(24 * 30)};  // of a conversation since its last turn
};

/// Used by one thread. Errors of calls are for clients, those of `open` for the person who starts it.
class ResponseTables {
 public:
  /// Makes the file with mode 0600 where there is none. kUnavailable where it cannot be used now (another process has
  /// it, the folder cannot be written), kInvalidRequest where it is no store of responses or damaged.
  static Result<std::unique_ptr<ResponseTables>> open(const std::string& path, const StoreBounds& bounds);

  /// Everything below between these two is kept together or not at all.
  Result<void> begin();
  Result<void> commit();
  void roll_back();

  Result<void> put(const pipeline::StoredResponse& response, std::chrono::seconds now);
  Result<pipeline::StoredResponse> find(const std::string& tenant, RequestId id);
  Result<std::vector<pipeline::StoredResponse>> history(const std::string& tenant, RequestId id,
                                                        std::uint64_t bytes_max);
  Result<void> erase(const std::string& tenant, RequestId id);

  /// One small step towards the bounds, in a transaction of its own: a few rows, a few hundred pages given back. False
  /// when there is nothing to do. For size alone no more goes than must, and of the turn written last and what it
  /// continues only the events; beyond one and a half times the bound that turn goes as well, since one conversation
  /// must not keep all others out.
  Result<bool> trim(std::chrono::seconds now);
  /// Bytes of the file that hold something.
  Result<std::uint64_t> bytes();

 private:
  struct Row;
  ResponseTables(Database database, const StoreBounds& bounds);
  Result<void> prepare();
  /// Whether they dropped any.
  Result<bool> drop_old(std::int64_t conversation);
  Result<bool> drop_leaves(std::int64_t conversation);
  /// Runs a statement about one row of a conversation: whether there was one.
  Result<bool> one_of(Statement& statement, std::int64_t conversation);
  Result<bool> give_pages_back();

  Database database_;
  const StoreBounds bounds_;
  Statement place_;
  Statement conversation_;
  Statement put_;
  Statement touch_;
  Statement find_;
  Statement turn_;
  Statement erase_;
  Statement forget_;
  Statement oldest_;
  Statement drop_rows_;
  Statement drop_leaf_;
  Statement drop_events_;
  Statement drop_last_;
  Statement last_is_;
};

}  // namespace kvern::app

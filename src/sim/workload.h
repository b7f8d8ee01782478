// What simulated clients ask: conversations that grow turn by turn and share their beginnings, with every way to end an
// answer, priorities, tenants, tools; now and then a bare prompt or something the template refuses.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "ir/request.h"

namespace kvern::sim {

/// One conversation. A value.
class Conversation {
 public:
  explicit Conversation(Rng rng);

  /// The next turn's request, without its id: history and a new message of the user.
  ir::Request ask();
  /// The same turn once more.
  ir::Request ask_again() const { return request_; }
  /// Takes the answer into the history.
  void answered(const std::string& text);
  /// Forgets all but the system message: it has become too long.
  void start_over() { history_.resize(1); }

 private:
  std::string words(std::uint32_t count);
  ir::Stopping draw_stopping();
  std::string draw_stop_string();

  Rng rng_;
  std::vector<ir::Message> history_;
  ir::Request request_;
  std::string tenant_;
  std::string salt_;
  bool has_tools_ = false;
};

}  // namespace kvern::sim

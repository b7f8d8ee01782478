#include "api/decode_call.h"

#include <utility>

#include "api/bounds.h"
#include "api/extension.h"
#include "api/hint_headers.h"

namespace kvern::api {
namespace {

/// Whoever may not choose a worker has not chosen one.
void drop_placement(ir::Hints& hints, std::vector<std::string>& left_out) {
  const auto drop = [&](bool asked, std::string_view what) {
    if (asked) left_out.push_back(std::string(what) + " (for admin keys)");
  };
  drop(!hints.worker.empty(), "the choice of a worker");
  drop(hints.worker_rank.has_value(), "the choice of a rank");
  drop(is_query_only(hints), "a query for a worker");
  hints.worker.clear();
  hints.worker_rank.reset();
  std::erase_if(hints.annotations, [](const std::string& name) { return name.starts_with(kQueryAnnotation); });
}

/// A subagent that does not name who started it was started by its session; nobody is his own parent or subagent.
void settle(ir::Session& session) {
  if (session.agent == session.id) session.agent.clear();
  if (!session.agent.empty() && session.parent.empty()) session.parent = session.id;
  if (session.parent == session.key()) session.parent.clear();
}

}  // namespace

Result<Call> decode_call(const Dialect& dialect, std::string_view body, const HeaderList& headers,
                         const DecodeContext& context, const Limits& limits, bool may_place) {
  auto call = dialect.decode(body, context);
  if (!call) return call;
  ir::Request& request = call->request;
  if (auto error = apply_hint_headers(headers, limits, request, call->left_out)) return *std::move(error);
  settle(request.session);
  if (!may_place) drop_placement(request.hints, call->left_out);
  if (auto error = check_bounds(request, limits)) return *std::move(error);
  request.tenant = context.tenant;
  return call;
}

}  // namespace kvern::api

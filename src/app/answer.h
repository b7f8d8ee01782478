// One answer on its way out: ir events of all its choices in, bytes of a dialect onto an exchange. Holds the head back
// until the engine's first token or failure (at most 10 s), so that refusals are real statuses; after that a failure is
// an event in the stream. Lives on the loop of its exchange.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/dialect.h"
#include "base/log.h"
#include "ir/usage_sum.h"
#include "net/http_server.h"
#include "pipeline/dispatcher.h"

namespace kvern::app {

/// For the log.
double milliseconds_between(TimePoint from, TimePoint to);

/// What the log says of a request when it is over, and who else must know.
struct RequestNote {
  RequestId id;
  std::string method;
  std::string path;
  std::string client_request_id;
  std::string session;  // whose turn it is, shortened; empty: not told
  TimePoint started;
  std::function<void(int status)> on_over;  // called once; 499 when the client hung up
};

/// What must be done before an answer counts as given: its last bytes wait for it.
class Commit {
 public:
  virtual ~Commit() = default;
  /// Called once, when the encoder has the end; `done` comes once, at once or later on the same loop.
  virtual void commit(std::function<void(Result<void>)> done) = 0;
  /// It failed, or is waited for no longer: puts the failure in the place of the end, with which `out` closes.
  virtual void withdraw(const Error& error, std::string& out) = 0;
};

/// How the answer is to be written.
struct AnswerShape {
  std::unique_ptr<api::Encoder> encoder;
  bool stream = false;
  std::uint32_t choices = 1;                   // of each prompt
  std::uint32_t answers = 1;                   // of all prompts
  std::vector<std::string> extra_fields = {};  // facts about it that the client asks for
  bool tells_worker = true;                    // who ran it is for this client to know
  std::unique_ptr<Commit> commit = {};
};

class Answer final : public pipeline::EventReceiver, public std::enable_shared_from_this<Answer> {
 public:
  /// `dispatcher` is the one of the exchange's loop; `dialect` and `log` outlive the answer.
  Answer(std::shared_ptr<net::Exchange> exchange, AnswerShape shape, const api::Dialect& dialect,
         std::weak_ptr<pipeline::Dispatcher> dispatcher, Log& log, RequestNote note);

  /// Watches for the client hanging up; call once, before the first event can come.
  void begin();
  /// To be called every second or so: what waiting clients are to see, they see then.
  void tick(TimePoint now);
  void on_events(std::uint32_t choice, std::vector<ir::Event> events) override;
  /// Ends it from outside with an error (shutdown), the request cancelled by the caller: a status if none was sent yet,
  /// else an event in the stream.
  void fail(const Error& error);

 private:
  void start_stream();
  /// With what the dialect and the worker add.
  net::Headers with_facts(net::Headers headers) const;
  void end(const Error* error, std::string_view reason);
  void commit(std::string_view reason);
  void over(int status);
  /// What the client asked to be told of the answer, and the worker where the headers left before it was known.
  void put_extension(const ir::End& end);

  std::shared_ptr<net::Exchange> exchange_;
  std::unique_ptr<api::Encoder> encoder_;
  const bool stream_;
  const std::unique_ptr<Commit> commit_;
  const api::Dialect& dialect_;
  std::weak_ptr<pipeline::Dispatcher> dispatcher_;
  Log& log_;
  const RequestNote note_;
  std::uint32_t running_;  // choices that have not ended
  ir::UsageSum usage_;
  const std::vector<std::string> extra_fields_;
  const bool tells_worker_;
  std::optional<TimePoint> first_token_;
  std::string worker_;  // who runs the first choice that began; empty: not told
  bool worker_in_headers_ = false;
  std::string out_;  // encoded, not yet handed to the exchange
  TimePoint last_write_;
  bool head_sent_ = false;
  bool committing_ = false;  // the end is encoded and waits
  /// Itself meanwhile: the dispatcher has let go of it. A client that leaves, or the server's stop, ends that too.
  std::shared_ptr<Answer> held_;
  bool over_ = false;
};

/// Headers that stand on every answer.
net::Headers answer_headers(RequestId id, std::string_view content_type);
/// The same of an event stream: whoever stands in between is to pass each event on at once.
net::Headers stream_headers(RequestId id);
net::Response to_response(api::Reply reply, RequestId id);

}  // namespace kvern::app

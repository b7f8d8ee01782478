#include "app/answer.h"

#include <utility>

#include "api/answer_extension.h"
#include "base/text.h"

namespace kvern::app {
namespace {

constexpr auto kHeadHold = std::chrono::seconds(10);
constexpr auto kKeepAlive = std::chrono::seconds(10);

}  // namespace

net::Headers answer_headers(RequestId id, std::string_view content_type) {
  return {{"content-type", std::string(content_type)}, {"x-request-id", to_string(id)}};
}

net::Headers stream_headers(RequestId id) {
  net::Headers headers = answer_headers(id, "text/event-stream; charset=utf-8");
  headers.emplace_back("cache-control", "no-cache");
  headers.emplace_back("x-accel-buffering", "no");
  return headers;
}

double milliseconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

net::Response to_response(api::Reply reply, RequestId id) {
  net::Response response;
  response.status = reply.status;
  response.headers = answer_headers(id, "application/json");
  for (auto& [name, value] : reply.headers) {
    if (!net::equal_ignoring_case(name, "content-type"))
      response.headers.emplace_back(std::move(name), std::move(value));
  }
  response.body = std::move(reply.body);
  return response;
}

Answer::Answer(std::shared_ptr<net::Exchange> exchange, AnswerShape shape, const api::Dialect& dialect,
               std::weak_ptr<pipeline::Dispatcher> dispatcher, Log& log, RequestNote note)
    : exchange_(std::move(exchange)),
      encoder_(std::move(shape.encoder)),
      stream_(shape.stream),
      commit_(std::move(shape.commit)),
      dialect_(dialect),
      dispatcher_(std::move(dispatcher)),
      log_(log),
      note_(std::move(note)),
      running_(shape.answers),
      usage_(shape.choices),
      extra_fields_(std::move(shape.extra_fields)),
      tells_worker_(shape.tells_worker),
      last_write_(note_.started) {}

void Answer::begin() {
  exchange_->on_gone([self = weak_from_this()] {
    const auto answer = self.lock();
    if (!answer || answer->over_) return;
    if (const auto dispatcher = answer->dispatcher_.lock()) dispatcher->cancel(answer->note_.id);
    const RequestNote& note = answer->note_;
    answer->log_.info("request", {{"id", note.id},
                                  {"method", note.method},
                                  {"path", note.path},
                                  {"status", 499},
                                  {"ms", milliseconds_between(note.started, answer->exchange_->loop().clock().now())},
                                  {"worker", answer->worker_},
                                  {"end", "client gone or not reading"},
                                  {"session", note.session},
                                  {"client_request_id", note.client_request_id}});
    answer->over(499);
  });
}

void Answer::tick(TimePoint now) {
  if (!stream_ || over_ || committing_) return;  // nothing goes in between when its last event is encoded
  if (!head_sent_) {
    if (now - note_.started >= kHeadHold) start_stream();
  } else if (now - last_write_ >= kKeepAlive) {
    std::string bytes;
    encoder_->keep_alive(bytes);
    exchange_->write(bytes);
    last_write_ = now;
  }
}

net::Headers Answer::with_facts(net::Headers headers) const {
  for (auto& header : dialect_.headers(note_.id)) headers.push_back(std::move(header));
  if (tells_worker_ && !worker_.empty()) headers.emplace_back("x-kvern-worker", worker_);
  return headers;
}

void Answer::start_stream() {
  head_sent_ = true;
  worker_in_headers_ = !worker_.empty();
  exchange_->start(200, with_facts(stream_headers(note_.id)));
  last_write_ = exchange_->loop().clock().now();
  // Even a waiting client sees bytes: the head alone may sit in a proxy's buffer.
  if (out_.empty()) encoder_->keep_alive(out_);
  exchange_->write(out_);
  clear_buffer(out_);
}

void Answer::on_events(std::uint32_t choice, std::vector<ir::Event> events) {
  if (over_) return;
  for (const auto& event : events) {
    if (const auto* failure = std::get_if<ir::Failure>(&event)) {
      if (!head_sent_) return fail(failure->error);  // what was encoded so far never left: the status says it all
      encoder_->add(choice, event, out_);
      return end(&failure->error, {});
    }
    const auto* ended = std::get_if<ir::End>(&event);
    if (ended != nullptr) {
      usage_.add(choice, ended->usage);
      if (--running_ == 0) put_extension(*ended);
    } else if (!first_token_ && !std::holds_alternative<ir::Start>(event)) {
      first_token_ = exchange_->loop().clock().now();
    }
    encoder_->add(choice, event, out_);
    if (const auto* started = std::get_if<ir::Start>(&event); started != nullptr && worker_.empty()) {
      worker_ = started->worker;
    }
    // A Start alone is the engine's word that it began, not a token: the head waits for one.
    const bool waits = ended != nullptr && commit_;
    if (stream_ && !head_sent_ && !waits && !std::holds_alternative<ir::Start>(event)) start_stream();
    if (ended != nullptr && running_ == 0) {
      return commit_ ? commit(to_string(ended->reason)) : end(nullptr, to_string(ended->reason));
    }
  }
  if (stream_ && head_sent_ && !out_.empty()) {
    exchange_->write(out_);
    clear_buffer(out_);
    last_write_ = exchange_->loop().clock().now();
  }
}

void Answer::fail(const Error& error) {
  if (over_) return;
  if (committing_) {
    commit_->withdraw(error, out_);
  } else if (head_sent_) {
    encoder_->add(0, ir::Failure{error}, out_);
  } else {
    out_.clear();
  }
  end(&error, {});
}

void Answer::commit(std::string_view reason) {
  committing_ = true;
  held_ = shared_from_this();
  commit_->commit([self = weak_from_this(), reason](const Result<void>& done) {
    const auto answer = self.lock();
    if (!answer || answer->over_) return;
    if (!done) return answer->fail(done.error());
    if (answer->stream_ && !answer->head_sent_) answer->start_stream();
    answer->end(nullptr, reason);
  });
}

void Answer::put_extension(const ir::End& end) {
  auto fields = extra_fields_;
  if (stream_ && head_sent_ && !worker_in_headers_) fields.emplace_back("worker_id");
  if (fields.empty()) return;
  const Clock& clock = exchange_->loop().clock();
  api::AnswerFacts facts;
  if (tells_worker_) facts.worker = worker_;
  facts.total_ms = milliseconds_between(note_.started, clock.now());
  facts.received = clock.unix_milliseconds() - std::chrono::milliseconds(static_cast<std::int64_t>(facts.total_ms));
  if (first_token_) facts.first_token_ms = milliseconds_between(note_.started, *first_token_);
  facts.usage = usage_.total();
  facts.stop_string = end.stop_string;
  if (auto extension = api::render_extension(fields, facts); !extension.empty()) {
    encoder_->set_extension(std::move(extension));
  }
}

void Answer::over(int status) {
  over_ = true;
  const auto last = std::move(held_);  // may be all that holds it, until the end of this call
  note_.on_over(status);
}

void Answer::end(const Error* error, std::string_view reason) {
  int status = 200;
  if (error != nullptr && !head_sent_) {
    auto reply = dialect_.error(*error, note_.id);
    status = reply.status;
    exchange_->respond(to_response(std::move(reply), note_.id));
  } else if (stream_) {
    exchange_->write(out_);
    exchange_->finish();
  } else {
    net::Response response;
    response.headers = with_facts(answer_headers(note_.id, "application/json"));
    response.body = std::move(out_);
    exchange_->respond(std::move(response));
  }
  out_.clear();
  const double ms = milliseconds_between(note_.started, exchange_->loop().clock().now());
  const ir::Usage& usage = usage_.total();
  log_.info("request", {{"id", note_.id},
                        {"method", note_.method},
                        {"path", note_.path},
                        {"status", status},
                        {"ms", ms},
                        {"prompt_tokens", usage.prompt_tokens},
                        {"cached_tokens", usage.cached_tokens.value_or(0)},
                        {"completion_tokens", usage.completion_tokens},
                        {"worker", worker_},
                        {"end", error != nullptr ? to_string(error->code) : reason},
                        {"session", note_.session},
                        {"client_request_id", note_.client_request_id}});
  over(status);
}

}  // namespace kvern::app

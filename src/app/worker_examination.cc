#include "app/worker_examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "app/events_examination.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "engine/vllm/fetch.h"
#include "engine/vllm/probe.h"
#include "engine/vllm/worker_address.h"

namespace kvern::app {
namespace {

using engine::Fetched;

/// A worker may write anything where a number belongs.
std::int64_t integer_or(json::Value value, std::int64_t otherwise) {
  return value.is(json::Kind::kNumber) ? value.integer().value_or(otherwise) : otherwise;
}

constexpr auto kAnswersWithin = std::chrono::seconds(10);
/// A first token may wait in the worker's queue.
constexpr auto kGeneratesWithin = std::chrono::seconds(60);
constexpr std::size_t kAnswerBytesMax = 8U << 20U;
/// Tokens of the test prompt: several blocks of any usual size (16 to 64).
constexpr std::size_t kPromptTokens = 200;

/// What tokenizers differ over: accents apart and together, wide characters, runs of spaces, digits, contractions,
/// code, markup.
constexpr std::string_view kTrickyText =
    "Hello w\xC3\xB6rld, don't 12345.678 \xF0\x9F\x91\x8B  \n\n\tif (x  !=  y) { return \"caf\x65\xCC\x81\"; } "
    "\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82 \xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 "
    "<tool_call>{\"a\": [1, 2]}</tool_call><|im_end|>\n";

/// Requests to one worker, one after the other.
class Asker {
 public:
  Asker(net::Loop& loop, engine::WorkerAddress worker) : loop_(loop), worker_(std::move(worker)) {
    loop_.run_and_wait([this] { client_ = net::Client::create(loop_, 2); });
  }
  ~Asker() {
    loop_.run_and_wait([this] { client_.reset(); });
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  Result<Fetched> ask(std::string_view method, std::string_view path, std::string body = {},
                      std::chrono::milliseconds within = kAnswersWithin) {
    auto request = engine::request_to(worker_, method, path, std::move(body));
    request.first_byte_deadline = within;
    request.between_deadline = kAnswersWithin;
    request.body_bytes_max = kAnswerBytesMax;
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Result<Fetched>> answer;
    loop_.post([&] {
      engine::fetch(*client_, std::move(request), [&](Result<Fetched> fetched) {
        const std::lock_guard lock(mutex);
        answer = std::move(fetched);
        came.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return answer.has_value(); });  // the client's deadlines bound it
    return *std::move(answer);
  }

 private:
  net::Loop& loop_;
  const engine::WorkerAddress worker_;
  std::unique_ptr<net::Client> client_;
};

/// A JSON answer and what is looked up in it.
class Answer {
 public:
  explicit Answer(const Result<Fetched>& fetched) {
    if (!fetched || fetched->status != 200) return;
    text_ = fetched->body;
    auto document = json::Document::parse(text_, {});
    if (document && (*document)->root().is(json::Kind::kObject)) document_ = *std::move(document);
  }
  /// Follows members and, for a number, elements; nullopt where the way ends or there is null.
  std::optional<json::Value> at(std::initializer_list<std::string_view> path) const {
    if (!document_) return std::nullopt;
    std::optional<json::Value> value = document_->root();
    for (const auto step : path) {
      if (step == "0") {
        if (!value->is(json::Kind::kArray) || value->size() == 0) return std::nullopt;
        value = (*value->children().begin()).value;
        continue;
      }
      if (!value->is(json::Kind::kObject)) return std::nullopt;
      value = value->find(step);
      if (!value || value->is(json::Kind::kNull)) return std::nullopt;
    }
    return value;
  }

 private:
  std::string text_;
  std::unique_ptr<const json::Document> document_;
};

std::string status_of(const Result<Fetched>& fetched) {
  return fetched ? fmt::format("answers {}", fetched->status) : fetched.error().message;
}

class Examination {
 public:
  Examination(const WorkerSpec& spec, net::Loop& loop, engine::WorkerAddress address)
      : spec_(spec), asker_(loop, std::move(address)) {
    patient_ = {spec.name, spec.kind, spec.url, {}};
  }

  Patient run() {
    if (!check_reachable() || !check_model()) return patient_;
    check_version();
    const bool has_vocabulary = check_tokenizer();
    if (check_token_ids()) {
      check_cache();
      check_priority();
    }
    check_events(has_vocabulary);
    return patient_;
  }

 private:
  void add(std::string what, Finding finding, std::string_view found, std::string costs = {}, std::string remedy = {}) {
    // What was found may be the worker's own words; scripts print them too.
    patient_.checks.push_back({std::move(what), finding, printable(found), std::move(costs), std::move(remedy)});
  }

  /// By what the workers file says of its kind.
  const char* remedy(const char* vllm, const char* kvern) const { return spec_.kind == "kvern" ? kvern : vllm; }

  bool check_reachable() {
    const auto health = asker_.ask("GET", "/health");
    const bool is_there = health && health->status == 200;
    add("reachable", is_there ? Finding::kOk : Finding::kFault, status_of(health),
        is_there ? "" : "no request can go to this worker",
        is_there ? "" : "start the worker, or correct `url` in the workers file");
    return is_there;
  }

  bool check_model() {
    const auto models = asker_.ask("GET", "/v1/models");
    if (!models || models->status != 200) {
      const bool is_key = models && (models->status == 401 || models->status == 403);
      add("model", Finding::kFault, "/v1/models: " + status_of(models), "no request can go to this worker",
          is_key ? "name the variable with its key as `api_key_env` in the workers file"
                 : remedy("start a vLLM server there", "start `kvern worker` there"));
      return false;
    }
    auto facts = engine::read_models(models->body, spec_.model);
    if (!facts) {
      add("model", Finding::kFault, facts.error().message, "no request can go to this worker",
          remedy("start a vLLM server there", "start `kvern worker` there"));
      return false;
    }
    facts_ = *std::move(facts);
    std::string found = fmt::format("{}, {} tokens", facts_.model, facts_.max_model_len);
    if (!spec_.model.empty() && spec_.model != facts_.model) found += fmt::format(", served as {}", spec_.model);
    add("model", Finding::kOk, found);
    return true;
  }

  void check_version() {
    const Answer answer(asker_.ask("GET", "/version"));
    const auto version = answer.at({"version"});
    add("version", Finding::kInfo,
        version && version->is(json::Kind::kString) ? version->string().substr(0, 64) : std::string("not told"));
  }

  bool check_tokenizer() {
    auto vocabulary = load_vocabulary(spec_.tokenizer, "`tokenizer`");
    if (!vocabulary) {
      add("tokenizer", Finding::kFault, vocabulary.error().message, "kvern serve does not start with this worker",
          "correct `tokenizer` in the workers file");
      return false;
    }
    vocabulary_ = *std::move(vocabulary);
    std::string body;
    json::Writer writer(body);
    writer.begin_object().member("model", facts_.model).member("prompt", kTrickyText);
    writer.member("add_special_tokens", false).end_object();
    const auto fetched = asker_.ask("POST", "/tokenize", std::move(body));
    const Answer answer(fetched);
    const auto told = answer.at({"tokens"});
    if (!told || !told->is(json::Kind::kArray)) {
      add("tokenizer", Finding::kWarning, "/tokenize: " + status_of(fetched),
          "it cannot be shown that both sides tokenise alike", "use a vLLM server with /tokenize");
      return true;
    }
    Tokens theirs;
    for (const auto& child : told->children()) theirs.push_back(static_cast<TokenId>(integer_or(child.value, -1)));
    const prompt::Span span{std::string(kTrickyText), prompt::Origin::kTemplate};
    const Tokens ours = vocabulary_->tokenizer->encode({&span, 1});
    if (ours == theirs) {
      add("tokenizer", Finding::kOk, fmt::format("{} tokens of a tricky text are equal on both sides", ours.size()));
      return true;
    }
    const auto [mine, other] = std::ranges::mismatch(ours, theirs);
    add("tokenizer", Finding::kFault,
        fmt::format("token {} of a tricky text differs: {} here, {} at the worker", mine - ours.begin(),
                    mine == ours.end() ? std::string("the end") : std::to_string(*mine),
                    other == theirs.end() ? std::string("the end") : std::to_string(*other)),
        "the model reads other words than were sent", "name the GGUF file of exactly this model as `tokenizer`");
    return true;
  }

  Result<Fetched> complete(int priority) {
    std::string body;
    json::Writer writer(body);
    writer.begin_object().member("model", facts_.model).key("prompt").begin_array();
    const std::size_t length = std::min<std::size_t>(kPromptTokens, facts_.max_model_len - 1);
    for (std::size_t i = 0; i < length; ++i) writer.value(static_cast<std::int64_t>(100 + i % 50 * 3));
    writer.end_array().member("max_tokens", 1).member("temperature", 0).member("return_token_ids", true);
    if (priority != 0) writer.member("priority", priority);
    writer.end_object();
    return asker_.ask("POST", "/v1/completions", std::move(body), kGeneratesWithin);
  }

  bool check_token_ids() {
    const auto fetched = complete(0);
    if (!fetched || fetched->status != 200) {
      add("token ids", Finding::kFault, "a completion of one token: " + status_of(fetched),
          "no request can go to this worker", "look into the worker's own log");
      return false;
    }
    const Answer answer(fetched);
    const auto ids = answer.at({"choices", "0", "token_ids"});
    const bool has_ids = ids && ids->is(json::Kind::kArray);
    add("token ids", has_ids ? Finding::kOk : Finding::kFault,
        has_ids ? "prompts go in and answers come out as token ids" : "answers hold no `token_ids`",
        has_ids ? "" : "kvern cannot use this worker",
        has_ids ? "" : remedy("use vLLM 0.10.2 or later", "use the kvern that serves"));
    return has_ids;
  }

  /// The second request of a prompt finds it cached; whether that is told is another matter.
  void check_cache() {
    const auto before = cache_hits();
    const Answer again(complete(0));
    const auto told = again.at({"usage", "prompt_tokens_details", "cached_tokens"});
    const std::int64_t cached = told ? integer_or(*told, 0) : 0;
    const auto after = cache_hits();
    const bool has_hits = cached > 0 || (before && after && *after > *before);
    if (has_hits) {
      add("prefix caching", Finding::kOk, "a prompt sent twice is taken from the cache");
    } else if (before) {
      add("prefix caching", Finding::kWarning, "a prompt sent twice is computed twice",
          "every turn of a conversation is computed from its beginning",
          remedy("--enable-prefix-caching", "serve a model whose blocks can be shared: a script caches nothing"));
    } else {
      add("prefix caching", Finding::kInfo, "not known: /metrics does not tell");
    }
    if (told) {
      add("cached tokens", Finding::kOk, fmt::format("told: {} of the test prompt", cached));
    } else {
      add("cached tokens", Finding::kWarning, "the usage does not tell them",
          "`cached_tokens` is missing in every answer, and nobody sees what reuse saves",
          remedy("--enable-prompt-tokens-details", "nothing to add: a scripted engine caches nothing to tell of"));
    }
  }

  std::optional<double> cache_hits() {
    const auto fetched = asker_.ask("GET", "/metrics");
    if (!fetched || fetched->status != 200) return std::nullopt;
    constexpr std::string_view kName = "\nvllm:prefix_cache_hits_total";
    const std::size_t at = fetched->body.find(kName);
    if (at == std::string::npos) return std::nullopt;
    const std::size_t end = fetched->body.find('\n', at + 1);
    const std::string line = fetched->body.substr(at + 1, end - at - 1);
    const std::size_t space = line.rfind(' ');
    return space == std::string::npos ? std::nullopt : std::optional(std::strtod(line.c_str() + space, nullptr));
  }

  void check_priority() {
    const auto fetched = complete(1);
    if (fetched && fetched->status == 200) return add("priorities", Finding::kOk, "the worker takes `priority`");
    const bool is_refused = fetched && fetched->status == 400;
    add("priorities", is_refused ? Finding::kWarning : Finding::kFault,
        is_refused ? "the worker refuses `priority`" : "a request with `priority`: " + status_of(fetched),
        "inside the worker, urgent requests wait behind others",
        remedy("--scheduling-policy priority", "use the kvern that serves"));
  }

  void check_events(bool has_vocabulary) {
    if (spec_.events.empty()) {
      return add("KV events", Finding::kInfo,
                 "not followed: no `events` in the workers file (needed once requests are placed by what is cached)");
    }
    const auto provoke = [&] {
      if (has_vocabulary) static_cast<void>(asker_.ask("POST", "/v1/completions", provoking_body(), kGeneratesWithin));
    };
    for (auto& check : examine_events(spec_, provoke)) patient_.checks.push_back(std::move(check));
  }

  /// A prompt that nobody sent before, so that its blocks are stored.
  std::string provoking_body() const {
    const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    std::string body;
    json::Writer writer(body);
    writer.begin_object().member("model", facts_.model).key("prompt").begin_array();
    const std::size_t length = std::min<std::size_t>(kPromptTokens, facts_.max_model_len - 1);
    for (std::size_t i = 0; i < length; ++i) writer.value(static_cast<std::int64_t>(100 + (now >> (i % 24)) % 900));
    writer.end_array().member("max_tokens", 1).end_object();
    return body;
  }

  const WorkerSpec& spec_;
  Asker asker_;
  Patient patient_;
  engine::WorkerFacts facts_;
  std::optional<Vocabulary> vocabulary_;
};

}  // namespace

Patient examine(const WorkerSpec& spec, net::Loop& loop) {
  engine::WorkerAddress address{spec.at, {}};
  if (!spec.api_key_env.empty()) {
    const char* key = std::getenv(spec.api_key_env.c_str());
    if (key == nullptr || *key == '\0') {
      return {spec.name,
              spec.kind,
              spec.url,
              {{"key", Finding::kFault, fmt::format("the variable {} is not set", spec.api_key_env),
                "kvern serve does not start with this worker", "set it where kvern starts"}}};
    }
    address.api_key = Secret(key);
  }
  return Examination(spec, loop, std::move(address)).run();
}

}  // namespace kvern::app

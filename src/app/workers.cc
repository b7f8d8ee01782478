#include "app/workers.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "app/engine_metrics.h"
#include "router/strategy.h"

namespace kvern::app {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(500);
/// How long a start waits for the workers' first answers: they are asked at once, and mostly there.
constexpr auto kFirstWait = std::chrono::milliseconds(2'500);
constexpr auto kAskAgain = std::chrono::milliseconds(1'000);

/// Changes whenever the file does: written in place, replaced, or a link to another one.
std::string stamp_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "none";
  return fmt::format("{}.{}.{}.{}.{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

engine::WorkerDeadlines deadlines_of(const Settings& settings) {
  engine::WorkerDeadlines deadlines;
  deadlines.connect = settings.worker_connect_deadline;
  deadlines.first_token = settings.worker_first_token_deadline;
  deadlines.between_tokens = settings.worker_between_tokens_deadline;
  deadlines.silent_max = settings.worker_silent_deadline;
  // Together no longer than the silence that ends a worker: it takes a failed probe to know.
  deadlines.probe = std::min(deadlines.probe, settings.worker_silent_deadline / 2);
  deadlines.probe_interval = std::min(deadlines.probe_interval, settings.worker_silent_deadline / 2);
  return deadlines;
}

Result<engine::WorkerAddress> address_of(const WorkerSpec& spec) {
  engine::WorkerAddress address{spec.at, {}};
  if (spec.api_key_env.empty()) return address;
  const char* key = std::getenv(spec.api_key_env.c_str());
  if (key == nullptr || *key == '\0') {
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("worker `{}`: the variable {} (api_key_env) is not set", spec.name, spec.api_key_env));
  }
  address.api_key = Secret(key);
  return address;
}

}  // namespace

/// A worker of the file.
struct Workers::Entry {
  WorkerSpec spec;
  engine::WorkerAddress address;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::shared_ptr<engine::VllmEngine> engine;  // once it answered
  engine::WorkerFacts facts;                   // what the engine was made with
  std::string refused;                         // why it is not served though it answers
  // Between scout and watcher; guarded by the scout's mutex.
  bool asking = false;
  std::optional<Result<engine::WorkerFacts>> answer;
  TimePoint ask_at{};
  std::string trouble = "not asked yet";

  std::string served_id() const { return spec.model.empty() ? facts.model : spec.model; }
};

/// Asks workers who are not served yet, on a loop.
class Workers::Scout : public std::enable_shared_from_this<Scout> {
 public:
  explicit Scout(net::Loop& loop) : loop_(loop) {}

  void ask(const std::shared_ptr<Entry>& entry, std::chrono::milliseconds deadline) {
    {
      const std::lock_guard lock(mutex_);
      if (entry->asking) return;
      entry->asking = true;
    }
    loop_.post([self = shared_from_this(), entry, deadline] {
      if (!self->client_) self->client_ = net::Client::create(self->loop_, 0);
      engine::probe_worker(*self->client_, entry->address, entry->spec.model, deadline,
                           [weak = self->weak_from_this(), entry](Result<engine::WorkerFacts> facts) {
                             const auto scout = weak.lock();
                             if (!scout) return;
                             const std::lock_guard lock(scout->mutex_);
                             entry->asking = false;
                             entry->answer = std::move(facts);
                             scout->answered_.notify_all();
                           });
    });
  }

  /// The answer that came since, once.
  std::optional<Result<engine::WorkerFacts>> take(Entry& entry) {
    const std::lock_guard lock(mutex_);
    return std::exchange(entry.answer, std::nullopt);
  }
  bool is_asking(const Entry& entry) const {
    const std::lock_guard lock(mutex_);
    return entry.asking;
  }
  /// Waits until everybody who was asked has answered, at most so long.
  void wait_for_all(const std::vector<std::shared_ptr<Entry>>& entries, std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    answered_.wait_for(lock, at_most, [&] { return std::ranges::none_of(entries, [](auto& e) { return e->asking; }); });
  }
  /// The client ends on its loop.
  void close() {
    loop_.run_and_wait([this] { client_.reset(); });
  }

 private:
  net::Loop& loop_;
  std::unique_ptr<net::Client> client_;  // the loop's
  mutable std::mutex mutex_;
  std::condition_variable answered_;
};

// --- Life ---------------------------------------------------------------------------------------------------------

Workers::Workers(const WorkersParts& parts)
    : parts_(parts), path_(parts.settings.workers), scout_(std::make_shared<Scout>(*parts.loops.front())) {}

Result<std::unique_ptr<Workers>> Workers::start(const WorkersParts& parts) {
  std::unique_ptr<Workers> workers(new Workers(parts));
  workers->stamp_ = stamp_of(workers->path_);
  auto specs = read_workers_file(workers->path_);
  if (!specs) return specs.error();
  if (auto applied = workers->apply(*std::move(specs)); !applied) return applied.error();
  for (const auto& entry : workers->entries_) workers->ask(*entry);
  workers->scout_->wait_for_all(workers->entries_, kFirstWait);
  workers->take_answers();
  workers->regroup();
  workers->publish();
  workers->thread_ = std::thread([self = workers.get()] { self->watch(); });
  return workers;
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  scout_->close();
}

void Workers::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kLookEvery, [this] { return stopping_; })) {
    lock.unlock();
    tick();
    lock.lock();
  }
}

void Workers::tick() {
  bool changed = false;
  if (std::string stamp = stamp_of(path_); stamp != stamp_) {
    stamp_ = std::move(stamp);
    reread();
    changed = true;
  }
  changed = take_answers() || changed;
  changed = take_anew() || changed;
  const TimePoint now = parts_.loops.front()->clock().now();
  for (const auto& entry : entries_) {
    if (!entry->engine && now >= entry->ask_at) ask(*entry);
  }
  if (changed) regroup();
}

void Workers::reread() {
  // Opening anything else (a pipe) may wait for ever, and the end of this process with it.
  std::error_code fault;
  if (!std::filesystem::is_regular_file(path_, fault)) {
    parts_.log.error("workers file is not taken: the workers stay as they were", {{"reason", "it is not a file"}});
    return;
  }
  auto specs = read_workers_file(path_);
  const auto applied = specs ? apply(*std::move(specs)) : Result<void>(specs.error());
  if (applied) {
    parts_.log.info("workers file read", {{"workers", static_cast<std::uint64_t>(entries_.size())}});
  } else {
    parts_.log.error("workers file is not taken: the workers stay as they were", {{"reason", applied.error().message}});
  }
}

// --- Entries; changed by the watcher only, so it reads them without the lock -----------------------------------------

Result<void> Workers::apply(std::vector<WorkerSpec> specs) {
  // All or nothing: whatever can be wrong is found before anything changes.
  std::map<std::string, std::shared_ptr<const Vocabulary>> vocabularies;
  std::vector<std::shared_ptr<Entry>> entries;
  for (auto& spec : specs) {
    auto& vocabulary = vocabularies[spec.tokenizer];
    if (const auto known = vocabularies_.find(spec.tokenizer); !vocabulary && known != vocabularies_.end()) {
      vocabulary = known->second;
    }
    if (!vocabulary) {
      auto loaded = load_vocabulary(spec.tokenizer, fmt::format("`tokenizer` of worker `{}`", spec.name));
      if (!loaded) return loaded.error();
      vocabulary = std::make_shared<const Vocabulary>(*std::move(loaded));
    }
    auto address = address_of(spec);
    if (!address) return address.error();
    const auto same = std::ranges::find_if(entries_, [&](const auto& entry) { return entry->spec == spec; });
    if (same != entries_.end()) {
      entries.push_back(*same);
      continue;
    }
    entries.push_back(std::make_shared<Entry>());
    entries.back()->spec = std::move(spec);
    entries.back()->address = *std::move(address);
    entries.back()->vocabulary = vocabulary;
  }
  vocabularies_ = std::move(vocabularies);
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
  return {};
}

void Workers::ask(Entry& entry) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& each) { return each.get() == &entry; });
  entry.ask_at = parts_.loops.front()->clock().now() + kAskAgain;
  scout_->ask(*found, deadlines_of(parts_.settings).probe);
}

bool Workers::take_answers() {
  bool changed = false;
  for (const auto& entry : entries_) {
    auto answer = scout_->take(*entry);
    if (!answer || entry->engine) continue;
    if (*answer) {
      build(*entry, **answer);
      changed = true;
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (entry->trouble != answer->error().message) {
      parts_.log.warn("worker down", {{"worker", entry->spec.name}, {"reason", answer->error().message}});
    }
    entry->trouble = answer->error().message;
  }
  return changed;
}

/// A worker that was restarted with another model or length is another worker.
bool Workers::take_anew() {
  bool changed = false;
  for (const auto& entry : entries_) {
    if (!entry->engine) continue;
    const auto facts = entry->engine->report().facts;
    if (facts.model == entry->facts.model && facts.max_model_len == entry->facts.max_model_len) continue;
    build(*entry, facts);
    changed = true;
  }
  return changed;
}

void Workers::build(Entry& entry, const engine::WorkerFacts& facts) {
  engine::VllmOptions options;
  options.name = entry.spec.name;
  options.address = entry.address;
  options.model = facts.model;
  options.facts = facts;
  options.info.name = entry.spec.model.empty() ? facts.model : entry.spec.model;
  options.info.context_tokens = facts.max_model_len;
  options.info.vocab_size = entry.vocabulary->tokenizer->size();
  options.is_end = [tokenizer = entry.vocabulary->tokenizer](TokenId token) { return tokenizer->is_end(token); };
  options.deadlines = deadlines_of(parts_.settings);
  parts_.log.info("worker taken", {{"worker", entry.spec.name},
                                   {"model", facts.model},
                                   {"max_model_len", facts.max_model_len},
                                   {"version", facts.version}});
  std::shared_ptr<engine::VllmEngine> engine = engine::make_vllm_engine(std::move(options), parts_.loops, parts_.log);
  const std::lock_guard lock(mutex_);
  entry.engine.swap(engine);
  entry.facts = facts;
  entry.trouble.clear();
}

// --- Models -------------------------------------------------------------------------------------------------------

void Workers::regroup() {
  std::map<std::string, std::vector<Entry*>> groups;
  std::vector<std::string> order;  // of the file
  for (const auto& entry : entries_) {
    if (!entry->engine) continue;
    auto& members = groups[entry->served_id()];
    if (members.empty()) order.push_back(entry->served_id());
    const bool fits = members.empty() || (members.front()->vocabulary == entry->vocabulary &&
                                          members.front()->spec.parser == entry->spec.parser);
    std::string refused;
    if (!fits) {
      refused = fmt::format("serves `{}` with another tokenizer or parser than worker `{}`", entry->served_id(),
                            members.front()->spec.name);
      if (refused != entry->refused)
        parts_.log.error("worker left out", {{"worker", entry->spec.name}, {"reason", refused}});
    } else {
      members.push_back(entry.get());
    }
    const std::lock_guard lock(mutex_);
    entry->refused = std::move(refused);
  }
  std::map<std::string, Served> served;
  std::vector<std::shared_ptr<const pipeline::Model>> models;
  for (const auto& id : order) {
    served.emplace(id, serve(id, groups[id], aliases_of(id, id == order.front())));
    models.push_back(served.at(id).model);
    publish_model(id);
  }
  parts_.models.replace(std::move(models));
  const std::lock_guard lock(mutex_);
  served_.swap(served);
}

Workers::Served Workers::serve(const std::string& id, const std::vector<Entry*>& members,
                               std::vector<std::string> aliases) {
  std::vector<pipeline::Fleet::Worker> workers;
  std::uint32_t context_tokens = members.front()->facts.max_model_len;
  for (const Entry* entry : members) {
    workers.push_back({entry->spec.name, entry->engine});
    context_tokens = std::max(context_tokens, entry->facts.max_model_len);  // the fleet knows who is shorter
  }
  const Entry& first = *members.front();
  const auto known = served_.find(id);
  const bool stays = known != served_.end() && known->second.vocabulary == first.vocabulary;
  Served made;
  if (stays) {
    made = known->second;  // the fleet stays, and its counts with it
    made.fleet->set_workers(std::move(workers));
    if (made.model->context_tokens == context_tokens && made.model->parser == first.spec.parser &&
        made.model->aliases == aliases) {
      return made;
    }
  } else {
    auto strategy = router::make_strategy(parts_.settings.strategy);           // settings know it to be one
    const engine::ModelInfo info{id, 0, first.vocabulary->tokenizer->size()};  // each worker has a length of its own
    made.fleet = std::make_shared<pipeline::Fleet>(info, std::move(workers), *std::move(strategy));
    made.vocabulary = first.vocabulary;
  }
  auto model = std::make_shared<pipeline::Model>();
  model->name = id;
  model->aliases = std::move(aliases);
  model->context_tokens = context_tokens;
  model->longer_context = "start its workers with a longer one";
  model->parser = first.spec.parser;
  model->tokenizer = first.vocabulary->tokenizer;
  model->chat_template = first.vocabulary->chat_template;
  model->engine = made.fleet;
  made.model = std::move(model);
  return made;
}

std::vector<std::string> Workers::aliases_of(const std::string& id, bool is_first) const {
  std::vector<std::string> aliases;
  if (is_first) aliases = parts_.settings.aliases;
  for (const auto& names : parts_.settings.models) {
    if (names.name == id) aliases.insert(aliases.end(), names.aliases.begin(), names.aliases.end());
  }
  return aliases;
}

// --- What others see ----------------------------------------------------------------------------------------------

std::vector<Workers::Line> Workers::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  for (const auto& entry : entries_) {
    Line line{entry->spec.name, entry->spec.kind, entry->spec.url, {}, 0, entry->trouble};
    if (entry->engine) {
      line.model = entry->served_id();
      line.context_tokens = entry->facts.max_model_len;
      const auto report = entry->engine->report();
      line.trouble = report.reachable ? entry->refused : report.trouble;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

void Workers::publish_model(const std::string& id) {
  if (std::ranges::find(published_, id) != published_.end()) return;
  published_.push_back(id);
  publish_engine(parts_.metrics, id, [this, id] {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(id);
    return found == served_.end() ? engine::EngineStats() : found->second.fleet->stats();
  });
}

void Workers::publish() {
  parts_.metrics.on_scrape([this] {
    std::map<std::string, double> up;
    std::map<std::string, double> requests;
    std::map<std::string, double> tokens;
    std::map<std::string, double> placed;
    std::map<std::string, double> failures;
    std::map<std::string, double> retries;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& entry : entries_) {
        const std::string& name = entry->spec.name;
        const auto stats = entry->engine ? entry->engine->stats() : engine::EngineStats();
        up[name] = entry->engine && entry->engine->healthy() ? 1 : 0;
        requests[name] = stats.running;
        tokens[name] = static_cast<double>(stats.generated_tokens);
      }
      for (const auto& [id, served] : served_) {
        for (const auto& status : served.fleet->status()) {
          placed[status.name] = static_cast<double>(status.placed);
          failures[status.name] = static_cast<double>(status.failures);
        }
        retries[id] = static_cast<double>(served.fleet->retries());
      }
    }
    auto& metrics = parts_.metrics;
    metrics.set_gauges("kvern_worker_up", "1 while the worker answers", "worker", up);
    metrics.set_gauges("kvern_worker_requests", "Requests under way at the worker", "worker", requests);
    metrics.set_gauges("kvern_worker_tokens", "Tokens the worker has generated", "worker", tokens);
    metrics.set_gauges("kvern_worker_placed", "Requests given to the worker, retries included", "worker", placed);
    metrics.set_gauges("kvern_worker_failures", "Of those, failed", "worker", failures);
    metrics.set_gauges("kvern_retries", "Requests moved to another worker", "model_name", retries);
  });
}

}  // namespace kvern::app

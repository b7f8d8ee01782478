// The workers of `kvern serve --workers FILE`: reads and watches the file, probes who is in it, and keeps the set of
// served models in step with who answers. Workers of one model id form one fleet.
//
// A thread of its own looks at file and workers twice a second. A broken edit changes nothing and is logged. A worker
// that was never reached is asked again and again; one that comes back with another model or length is taken anew. A
// worker taken out of the file gets no new requests and finishes those it has.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/settings.h"
#include "app/vocabulary.h"
#include "app/workers_file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/vllm/vllm_engine.h"
#include "net/loop.h"
#include "pipeline/fleet.h"
#include "pipeline/model.h"

namespace kvern::app {

struct WorkersParts {
  const Settings& settings;
  Log& log;
  Metrics& metrics;
  std::vector<net::Loop*> loops;
  pipeline::ModelSet& models;
};

class Workers {
 public:
  /// Reads the file, loads vocabularies, and waits a moment for the workers' first answers. Errors are for the person
  /// at the terminal; a worker that does not answer is none.
  static Result<std::unique_ptr<Workers>> start(const WorkersParts& parts);
  ~Workers();
  /// Stops watching. The models stay served. Before the loops end.
  void stop();

  /// A worker at a glance.
  struct Line {
    std::string name;
    std::string kind;
    std::string url;
    std::string model;  // served id; empty: not known yet
    std::uint32_t context_tokens = 0;
    std::string trouble;  // empty: it answers
  };
  std::vector<Line> lines() const;

 private:
  struct Entry;
  /// One served model.
  struct Served {
    std::shared_ptr<pipeline::Fleet> fleet;
    std::shared_ptr<const pipeline::Model> model;
    std::shared_ptr<const Vocabulary> vocabulary;
  };
  class Scout;

  explicit Workers(const WorkersParts& parts);
  void watch();
  void tick();
  void reread();
  Result<void> apply(std::vector<WorkerSpec> specs);
  void ask(Entry& entry);
  bool take_answers();
  bool take_anew();
  void build(Entry& entry, const engine::WorkerFacts& facts);
  void regroup();
  Served serve(const std::string& id, const std::vector<Entry*>& members, std::vector<std::string> aliases);
  std::vector<std::string> aliases_of(const std::string& id, bool is_first) const;
  void publish();
  void publish_model(const std::string& id);

  const WorkersParts parts_;
  const std::string path_;
  std::string stamp_;  // of the file as last read
  const std::shared_ptr<Scout> scout_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;                            // guarded by mutex_; in the file's order
  std::map<std::string, Served> served_;                                   // guarded by mutex_
  std::map<std::string, std::shared_ptr<const Vocabulary>> vocabularies_;  // by path; the watcher's
  std::vector<std::string> published_;                                     // models with metrics
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace kvern::app

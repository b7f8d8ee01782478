// The workers file (YAML or JSON): who answers, in place of the embedded engine.
//
//   workers:
//     - {name: a, kind: vllm, url: http://10.0.0.5:8000, tokenizer: /models/qwen3.gguf}
//
// Strict: an unknown key, kind or parser is an error that says what there is. Nothing is opened or downloaded here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/vllm/worker_address.h"

namespace kvern::app {

struct WorkerSpec {
  std::string name;
  std::string kind;       // "vllm" or "kvern"
  std::string url;        // as written
  engine::WorkerUrl at;   // the same, taken apart
  std::string model;      // id to serve it under; empty: the worker's own
  std::string tokenizer;  // GGUF file; relative to the workers file where it is
  std::string parser = "hermes";
  std::string events;
  std::string replay;
  bool bind = false;        // kvern binds the events socket, and the worker connects
  std::string api_key_env;  // variable that holds the key
  bool operator==(const WorkerSpec&) const;
};

/// `name` is the file's, for messages; paths of tokenizers are taken relative to its folder.
Result<std::vector<WorkerSpec>> parse_workers(const std::string& text, const std::string& name);
Result<std::vector<WorkerSpec>> read_workers_file(const std::string& path);

}  // namespace kvern::app

#include "app/bench/bench_http.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include "app/bench/child_process.h"
#include "app/model_loader.h"
#include "base/terminal.h"
#include "net/bench/byte_relay.h"
#include "net/bench/http_bench.h"
#include "net/bench/load.h"
#include "net/bench/loopback.h"

namespace kvern::app {
namespace {

using boost::json::object;

constexpr std::chrono::seconds kStartsWithin{60};
constexpr std::chrono::milliseconds kMeasuredFor{2'000};
constexpr std::uint32_t kPacedStreams = 200;
constexpr std::uint32_t kPacedEvents = 200;
constexpr std::uint32_t kPacedMs = 10;
constexpr std::uint32_t kHeldStreams = 1'000;
constexpr std::uint32_t kRateConnections = 32;
constexpr std::string_view kListening = "listening on http://127.0.0.1:";

/// A folder for this run, gone with it.
class Workspace {
 public:
  Workspace() {
    std::string path = (std::filesystem::temp_directory_path() / "kvern-bench-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) folder_ = path;
  }
  ~Workspace() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

/// What answers: 16 tokens at once; 200 tokens, one each 10 ms; a few tokens, slowly.
std::string script() {
  const auto words = [](std::uint32_t count) {
    std::string text = "one";
    for (std::uint32_t i = 1; i < count; ++i) text += " one";
    return text;
  };
  const auto line = [](std::string_view match, const std::string& text, std::uint32_t itl_ms) {
    return fmt::format("{{\"match\": \"{}\", \"text\": \"{}\", \"itl_ms\": {}, \"repeat\": true}}\n", match, text,
                       itl_ms);
  };
  // Thinking, text and a tool call; the markup takes tokens too.
  const auto work = [&](std::uint32_t count) {
    return fmt::format(
        "<think>{0}</think>{0}<tool_call>{{\\\"name\\\": \\\"note\\\", \\\"arguments\\\": "
        "{{\\\"text\\\": \\\"{0}\\\"}}}}</tool_call>",
        words(count));
  };
  return line("at once", words(16), 0) + line("paced", words(kPacedEvents), kPacedMs) + line("held", words(15), 200) +
         line("work fast", work(1), 0) + line("work evenly", work(kPacedEvents / 3), kPacedMs) +
         line("work slowly", work(1), 200);
}

/// A way to ask for an answer. `body` is a format string: the words and `stream` come in, in that order.
struct Api {
  const char* name;
  const char* path;
  const char* body;

  net::LoadOptions ask(std::string_view words, bool stream, std::uint32_t connections) const {
    net::LoadOptions options;
    options.path = path;
    options.body = fmt::format(fmt::runtime(body), words, stream);
    options.connections = connections;
    return options;
  }
  /// One answer a connection.
  net::LoadOptions ask_once(std::string_view words, std::uint32_t connections) const {
    net::LoadOptions options = ask(words, true, connections);
    options.requests_max = connections;
    return options;
  }
};

constexpr Api kChat{"chat", "/v1/chat/completions",
                    R"({{"messages": [{{"role": "user", "content": "Answer {}, please."}}], "stream": {}}})"};

/// The three APIs at work: each with a tool, and an answer of thinking, text and a call of it.
constexpr std::array kAtWork{
    Api{"chat", "/v1/chat/completions",
        R"({{"messages": [{{"role": "user", "content": "Now {}, please."}}], "stream": {}, "tools":)"
        R"([{{"type": "function", "function": {{"name": "note", "parameters": {{"type": "object"}}}}}}]}})"},
    Api{"messages", "/v1/messages",
        R"({{"messages": [{{"role": "user", "content": "Now {}, please."}}], "stream": {}, "max_tokens": 9000,)"
        R"("thinking": {{"type": "enabled", "budget_tokens": 8000}}, "model": "m",)"
        R"("tools": [{{"name": "note", "input_schema": {{"type": "object"}}}}]}})"},
    Api{"responses", "/v1/responses",
        R"({{"input": "Now {}, please.", "stream": {}, "store": false,)"
        R"("tools": [{{"type": "function", "name": "note", "parameters": {{"type": "object"}}}}]}})"},
    Api{"responses_stored", "/v1/responses",
        R"({{"input": "Now {}, please.", "stream": {}, "store": true,)"
        R"("tools": [{{"type": "function", "name": "note", "parameters": {{"type": "object"}}}}]}})"}};

using Names = std::span<const std::string_view>;
constexpr std::array<std::string_view, 5> kAll{"in_process", "relay", "nginx", "worker", "through_worker"};
constexpr std::array<std::string_view, 4> kForChat{"in_process", "relay", "nginx", "through_worker"};
constexpr std::array<std::string_view, 3> kForEvents{"in_process", "relay", "through_worker"};

struct Target {
  std::string name;
  std::unique_ptr<ChildProcess> process;
  std::uint16_t port = 0;
};

Result<std::uint16_t> port_in(const std::string& said) {
  const std::size_t at = said.find(kListening) + kListening.size();
  std::uint16_t port = 0;
  const auto [end, fault] = std::from_chars(said.data() + at, said.data() + said.size(), port);
  if (fault != std::errc{}) return fail(ErrorCode::kInternal, "a server does not say its port: " + said);
  return port;
}

Result<Target> start_own(std::string name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), own_program());
  auto process = ChildProcess::start(arguments);
  if (!process) return process.error();
  auto said = (*process)->wait_for("\n", kStartsWithin);  // the whole line
  if (!said) return said.error();
  auto port = port_in(*said);
  if (!port) return port.error();
  return Target{std::move(name), std::move(*process), *port};
}

/// nginx as a proxy with one worker per core, as its own documentation sets it up for keep-alive and streams.
std::string nginx_config(std::uint16_t port, std::uint16_t origin) {
  return fmt::format(R"(daemon off;
worker_processes auto;
error_log stderr notice;
pid nginx.pid;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream origin {{ server 127.0.0.1:{1}; keepalive 256; }}
  server {{
    listen 127.0.0.1:{0} backlog=4096;
    keepalive_requests 1000000;
    location / {{
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $http_host; proxy_buffering off;
    }}
  }}
}}
)",
                     port, origin);
}

/// nullopt where nginx is not installed.
std::optional<Target> start_nginx(const Workspace& workspace, std::uint16_t origin) {
  // nginx takes no port 0; one that was free a moment ago will do.
  const auto port = net::free_port();
  const std::string config = workspace.write("nginx.conf", nginx_config(port, origin));
  auto process = ChildProcess::start({"nginx", "-e", "stderr", "-p", workspace.folder(), "-c", config});
  if (!process || !(*process)->wait_for("start worker process", kStartsWithin)) return std::nullopt;
  return Target{"nginx", std::move(*process), port};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Figures of one target, a list each, by name.
using Series = std::map<std::string, std::vector<double>>;

object medians(const Series& series) {
  object out;
  for (const auto& [name, values] : series) out[name] = median(values);
  return out;
}

/// Writes to client sockets so far, of a kvern.
std::optional<double> writes_of(const Target& target) {
  constexpr std::string_view kName = "\nkvern_http_writes ";
  const auto metrics = net::get_loopback(target.port, "/metrics");
  const std::size_t at = metrics ? metrics->find(kName) : std::string::npos;
  if (at == std::string::npos || target.name == "relay" || target.name == "nginx") return std::nullopt;
  return std::stod(metrics->substr(at + kName.size()));
}

class Bench {
 public:
  explicit Bench(int rounds) : rounds_(rounds) {}

  Result<object> run() {
    if (auto ready = start(); !ready) return ready.error();
    object out;
    const std::pair<const char*, Result<object> (Bench::*)()> cases[] = {{"streams", &Bench::streams},
                                                                         {"one_connection", &Bench::one_connection},
                                                                         {"rate", &Bench::rate},
                                                                         {"paced", &Bench::paced},
                                                                         {"at_work", &Bench::at_work}};
    for (const auto& [name, measure] : cases) {
      write_stderr(fmt::format("kvern bench http: {}\n", name));
      auto figures = (this->*measure)();
      if (!figures) return figures.error();
      out[name] = std::move(*figures);
    }
    summarise(out);
    return out;
  }

 private:
  Result<void> start() {
    const std::string engine = "scripted:" + workspace_.write("script.jsonl", script());
    const std::vector<std::string> quiet{"--port", "0", "--log-level", "error"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), quiet.begin(), quiet.end());
      return words;
    };
    const auto serve = [&](const char* state) {
      return with({"serve", "--engine", engine, "--alias", "m", "--state-dir", workspace_.folder() + state});
    };
    if (auto added = add(start_own("in_process", serve("/first"))); !added) return added;
    fresh_ = serve("/fresh");
    if (auto added = add(start_own("relay", {"bench", "relay", "--origin", std::to_string(targets_[0].port)}));
        !added) {
      return added;
    }
    if (auto nginx = start_nginx(workspace_, targets_[0].port)) targets_.push_back(std::move(*nginx));
    if (auto added = add(start_own("worker", with({"worker", "--engine", engine, "--name", "m"}))); !added)
      return added;
    const std::string workers = workspace_.write(
        "workers.yaml",
        fmt::format("workers: [{{name: w, kind: kvern, url: \"http://127.0.0.1:{}\", tokenizer: \"{}\"}}]\n",
                    targets_.back().port, default_model_path()));
    return add(start_own("through_worker",
                         with({"serve", "--workers", workers, "--state-dir", workspace_.folder() + "/routed"})));
  }
  Result<void> add(Result<Target> target) {
    if (!target) return target.error();
    targets_.push_back(std::move(*target));
    return {};
  }

  /// Runs the load against a target; adds its CPU to the series under `per`.
  Result<net::LoadResult> load(const Target& target, net::LoadOptions options, double& cpu_us) const {
    options.port = target.port;
    const double before = target.process->cpu_us();
    auto result = net::run_load(options);
    cpu_us = target.process->cpu_us() - before;
    if (result && (result->errors > 0 || result->answers == 0)) {
      return fail(ErrorCode::kInternal, fmt::format("{} gave {} errors under load", target.name, result->errors));
    }
    return result;
  }

  /// Measures those targets in turn, `rounds_` times, so that all see the same hours of the machine.
  Result<object> each(Names names, const std::function<Result<void>(const Target&, Series&)>& measure) {
    std::vector<Series> series(targets_.size());
    for (int round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < targets_.size(); ++i) {
        if (std::ranges::find(names, targets_[i].name) == names.end()) continue;
        if (auto done = measure(targets_[i], series[i]); !done) return done.error();
      }
    }
    object out;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (!series[i].empty()) out[targets_[i].name] = medians(series[i]);
    }
    return out;
  }

  /// JSON answers of 16 tokens, one after the other. Completions, which worker and server both speak.
  Result<object> one_connection() {
    return each(kAll, [&](const Target& target, Series& series) -> Result<void> {
      net::LoadOptions options;
      options.path = "/v1/completions";
      options.body = R"({"model": "", "prompt": "Answer at once, please."})";
      options.send_for = kMeasuredFor / 2;
      double cpu_us = 0;
      const auto result = load(target, options, cpu_us);
      if (!result) return result.error();
      series["p50_us"].push_back(result->latency.p50);
      series["p99_us"].push_back(result->latency.p99);
      series["cpu_us_per_request"].push_back(cpu_us / static_cast<double>(result->answers));
      return {};
    });
  }

  /// Chat requests with JSON answers of 16 tokens, as many as go.
  Result<object> rate() { return rate_of(kChat.ask("at once", false, kRateConnections), kForChat); }

  Result<object> rate_of(net::LoadOptions options, Names names) {
    options.send_for = kMeasuredFor;
    return each(names, [&](const Target& target, Series& series) -> Result<void> {
      double cpu_us = 0;
      const auto result = load(target, options, cpu_us);
      if (!result) return result.error();
      series["requests_per_s"].push_back(static_cast<double>(result->answers) / result->seconds);
      series["cpu_us_per_request"].push_back(cpu_us / static_cast<double>(result->answers));
      series["p50_us"].push_back(result->latency.p50);
      series["p99_us"].push_back(result->latency.p99);
      return {};
    });
  }

  /// Streams of 200 tokens, 10 ms apart, as a model decodes.
  Result<object> paced() { return paced_of(kChat.ask_once("paced", kPacedStreams), kForChat); }

  Result<object> paced_of(const net::LoadOptions& options, Names names) {
    std::map<std::string, std::vector<double>> costs;
    auto out = each(names, [&](const Target& target, Series& series) -> Result<void> {
      double cpu_us = 0;
      const auto writes = writes_of(target);
      const auto result = load(target, options, cpu_us);
      if (!result) return result.error();
      if (writes) {
        series["writes_per_event"].push_back((*writes_of(target) - *writes) / static_cast<double>(result->events));
      }
      costs[target.name].push_back(cpu_us / static_cast<double>(result->events));
      series["cpu_us_per_event"].push_back(costs[target.name].back());
      series["events_per_read"].push_back(static_cast<double>(result->events) / static_cast<double>(result->reads));
      series["itl_p50_us"].push_back(result->gap.p50);
      series["itl_p99_us"].push_back(result->gap.p99);
      series["first_event_p99_us"].push_back(result->first_event.p99);
      return {};
    });
    if (!out) return out;
    // Round by round, since the machine's mood changes from one to the next.
    for (const auto& [name, of_target] : costs) {
      std::vector<double> ratios;
      ratios.reserve(of_target.size());
      for (std::size_t i = 0; i < of_target.size(); ++i) ratios.push_back(of_target[i] / costs["relay"][i]);
      (*out)[name].as_object()["cost_vs_relay"] = median(ratios);
    }
    return out;
  }

  /// What an open stream keeps in memory. The first of all: later ones would find memory that other loads left.
  Result<object> streams() {
    object out;
    for (const Target& target : targets_) {
      if (target.name == "worker") continue;
      auto kb = kb_per_stream(target, kChat.ask_once("held", kHeldStreams));
      if (!kb) return kb.error();
      out[target.name] = object{{"kb_per_stream", *kb}};
    }
    return out;
  }

  /// Memory does not vary: once.
  Result<double> kb_per_stream(const Target& target, const net::LoadOptions& options) const {
    const double before = static_cast<double>(target.process->resident_bytes());
    double peak = before;
    std::atomic<bool> done{false};
    std::thread sampler([&] {
      while (!done.load()) {
        peak = std::max(peak, static_cast<double>(target.process->resident_bytes()));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
    double cpu_us = 0;
    const auto result = load(target, options, cpu_us);
    done.store(true);
    sampler.join();
    if (!result) return result.error();
    return (peak - before) / 1024 / kHeldStreams;
  }

  /// The same figures for each API, with thinking, text and a tool call in the answer.
  Result<object> at_work() {
    object out;
    for (const Api& api : kAtWork) {
      write_stderr(fmt::format("kvern bench http: {} at work\n", api.name));
      const auto fresh = start_own("fresh", fresh_);  // for its memory
      if (!fresh) return fresh.error();
      const auto kb = kb_per_stream(*fresh, api.ask_once("work slowly", kHeldStreams));
      if (!kb) return kb.error();
      auto rate = rate_of(api.ask("work fast", false, kRateConnections), Names(kForEvents).first(1));
      if (!rate) return rate.error();
      auto paced = paced_of(api.ask_once("work evenly", kPacedStreams), kForEvents);
      if (!paced) return paced.error();
      out[api.name] = object{{"kb_per_stream", *kb}, {"rate", *std::move(rate)}, {"paced", *std::move(paced)}};
    }
    return out;
  }

  /// The figures that are claimed, in one place.
  static void summarise(object& out) {
    const auto at = [&](const char* part, const char* target, const char* figure) -> double {
      const auto* of_part = out[part].if_object();
      const auto* of_target = of_part == nullptr ? nullptr : of_part->if_contains(target);
      if (of_target == nullptr) return 0;
      const auto* value = of_target->as_object().if_contains(figure);
      return value == nullptr ? 0 : value->to_number<double>();
    };
    object summary;
    summary["chat_cpu_us"] = at("rate", "in_process", "cpu_us_per_request");
    summary["chat_requests_per_s"] = at("rate", "in_process", "requests_per_s");
    summary["event_vs_relay_in_process"] = at("paced", "in_process", "cost_vs_relay");
    summary["event_vs_relay_through_worker"] = at("paced", "through_worker", "cost_vs_relay");
    summary["kb_per_stream"] = at("streams", "in_process", "kb_per_stream");
    summary["added_by_worker_hop_p50_us"] =
        at("one_connection", "through_worker", "p50_us") - at("one_connection", "worker", "p50_us");
    summary["added_by_nginx_p50_us"] =
        at("one_connection", "nginx", "p50_us") - at("one_connection", "in_process", "p50_us");
    for (const Api& api : kAtWork) {
      const object& of_api = out["at_work"].as_object()[api.name].as_object();
      const object& paced = of_api.at("paced").as_object();
      const object& rate = of_api.at("rate").at("in_process").as_object();
      summary[api.name] = object{{"cpu_us", rate.at("cpu_us_per_request")},
                                 {"requests_per_s", rate.at("requests_per_s")},
                                 {"event_vs_relay_in_process", paced.at("in_process").at("cost_vs_relay")},
                                 {"event_vs_relay_through_worker", paced.at("through_worker").at("cost_vs_relay")},
                                 {"kb_per_stream", of_api.at("kb_per_stream")}};
    }
    out["summary"] = std::move(summary);
  }

  const int rounds_;
  const Workspace workspace_;
  std::vector<std::string> fresh_;  // how another of the first is started
  std::vector<Target> targets_;
};

}  // namespace

Result<object> bench_http(int rounds) {
  auto out = Bench(rounds).run();
  if (!out) return out;
  const auto server = net::bench_http({});
  if (!server) return server.error();
  (*out)["server_alone"] = object{{"us_per_event", server->us_per_event},
                                  {"us_per_event_eight_a_turn", server->us_per_event_eight_a_turn},
                                  {"us_per_request", server->us_per_request}};
  return out;
}

int run_relay(std::uint16_t origin) {
  const Error error = net::run_byte_relay(
      origin, [](std::uint16_t port) { write_stderr(fmt::format("listening on http://127.0.0.1:{}\n", port)); });
  write_stderr(fmt::format("kvern: {}\n", error.message));
  return 1;
}

}  // namespace kvern::app

#include "app/doctor.h"

#include <fmt/format.h>

#include <cstdio>

#include "app/doctor_report.h"
#include "app/model_loader.h"
#include "app/run_service.h"
#include "app/vocabulary.h"
#include "app/worker_examination.h"
#include "app/workers_file.h"

namespace kvern::app {
namespace {

Patient examine_embedded(const Settings& settings) {
  const std::string path = settings.model.empty() ? default_model_path() : settings.model;
  Patient patient{"this machine", "embedded", path, {}};
  const auto vocabulary = load_vocabulary(path, "--model");
  if (!vocabulary) {
    patient.checks.push_back({"model file", Finding::kFault, vocabulary.error().message, "kvern serve does not start",
                              settings.model.empty() ? "run scripts/setup" : "name another file with --model"});
    return patient;
  }
  patient.checks.push_back(
      {"model file",
       Finding::kOk,
       fmt::format("vocabulary of {} tokens and chat template can be used", vocabulary->tokenizer->size()),
       {},
       {}});
  const auto& traits = vocabulary->chat_template->traits();
  patient.checks.push_back({"tools",
                            traits.tools ? Finding::kOk : Finding::kInfo,
                            traits.tools ? "the chat template prints them"
                                         : "the chat template has no place for them: they are told in a system message",
                            {},
                            {}});
  return patient;
}

}  // namespace

int doctor_cannot(const Error& error, bool json) {
  if (json) fmt::print("{}", render_json_error(error.message));
  return complain(error);
}

int doctor(const Settings& settings, bool json) {
  std::vector<Patient> patients;
  if (settings.workers.empty()) {
    patients.push_back(examine_embedded(settings));
  } else {
    const auto specs = read_workers_file(settings.workers);
    if (!specs) return doctor_cannot(specs.error(), json);
    const SystemClock clock;
    const auto loop = net::Loop::create(clock);
    for (const auto& spec : *specs) patients.push_back(examine(spec, *loop));
    loop->stop();
  }
  fmt::print("{}", json ? render_json(patients) : render_text(patients));
  return all_well(patients) ? 0 : 1;
}

}  // namespace kvern::app

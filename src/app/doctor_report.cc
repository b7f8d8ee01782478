#include "app/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json_writer.h"
#include "base/text.h"

namespace kvern::app {
namespace {

const char* word(Finding finding) {
  switch (finding) {
    case Finding::kOk: return "ok";
    case Finding::kInfo: return "info";
    case Finding::kWarning: return "warning";
    case Finding::kFault: return "fault";
  }
  return "fault";
}

}  // namespace

bool all_well(const std::vector<Patient>& patients) {
  return std::ranges::all_of(patients, [](const Patient& patient) {
    return std::ranges::all_of(patient.checks, [](const Check& check) {
      return check.finding == Finding::kOk || check.finding == Finding::kInfo;
    });
  });
}

std::string render_text(const std::vector<Patient>& patients) {
  std::string out;
  const auto line = [&out](std::string_view label, std::string_view text) {
    if (!text.empty()) fmt::format_to(std::back_inserter(out), "            {:<8} {}\n", label, printable(text));
  };
  for (const auto& patient : patients) {
    fmt::format_to(std::back_inserter(out), "{} ({}, {})\n", printable(patient.name), patient.kind,
                   printable(patient.url));
    for (const auto& check : patient.checks) {
      fmt::format_to(std::back_inserter(out), "  {:<8}  {}: {}\n", word(check.finding), check.what,
                     printable(check.found));
      line("costs:", check.costs);
      line("remedy:", check.remedy);
    }
    out += '\n';
  }
  out += all_well(patients) ? "All is well.\n" : "Not all is well; see above.\n";
  return out;
}

std::string render_json_error(std::string_view error) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().member("well", false).member("error", error).key("workers").begin_array().end_array();
  writer.end_object();
  return out + "\n";
}

std::string render_json(const std::vector<Patient>& patients) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().member("well", all_well(patients)).key("workers").begin_array();
  for (const auto& patient : patients) {
    writer.begin_object().member("name", patient.name).member("kind", patient.kind).member("url", patient.url);
    writer.key("checks").begin_array();
    for (const auto& check : patient.checks) {
      writer.begin_object().member("what", check.what).member("finding", word(check.finding));
      writer.member("found", check.found);
      if (!check.costs.empty()) writer.member("costs", check.costs);
      if (!check.remedy.empty()) writer.member("remedy", check.remedy);
      writer.end_object();
    }
    writer.end_array().end_object();
  }
  writer.end_array().end_object();
  return out + "\n";
}

}  // namespace kvern::app

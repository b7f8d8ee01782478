#include "app/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace kvern::app {
namespace {

using testing::HasSubstr;

std::string fault_of(const std::string& yaml) {
  Settings settings;
  const auto applied = apply_yaml(settings, yaml, "kvern.yaml");
  return applied.ok() ? "accepted" : applied.error().message;
}

TEST(Settings, FileThenVariables) {
  Settings settings;
  ASSERT_TRUE(apply_yaml(settings, "port: 9000\nlog_level: warn\nalias: [a, 'b-*']\ninsecure: true\n", "f").ok());
  EXPECT_EQ(settings.port, 9000);
  EXPECT_EQ(settings.aliases, (std::vector<std::string>{"a", "b-*"}));
  EXPECT_TRUE(settings.insecure);
  const std::map<std::string, const char*> variables{{"KVERN_PORT", "9001"}, {"KVERN_DRAIN_DEADLINE", "5s"}};
  ASSERT_TRUE(apply_variables(settings, [&](const char* name) {
                const auto found = variables.find(name);
                return found == variables.end() ? nullptr : found->second;
              }).ok());
  EXPECT_EQ(settings.port, 9001);
  EXPECT_EQ(settings.drain_deadline, std::chrono::seconds(5));
  EXPECT_EQ(settings.log_level, LogLevel::kWarn);
}

TEST(Settings, FaultsNameLineAndKeyAndWhatWasMeant) {
  EXPECT_EQ(fault_of("host: x\nprot: 80\n"), "kvern.yaml line 2: unknown key `prot`; did you mean `port`?");
  EXPECT_EQ(fault_of("port: many\n"), "kvern.yaml line 1: `port` needs a whole number from 0 to 65535");
  EXPECT_EQ(fault_of("port: 99999\n"), "kvern.yaml line 1: `port` needs a whole number from 0 to 65535");
  EXPECT_EQ(fault_of("port: [1]\n"), "kvern.yaml line 1: `port` has one value");
  EXPECT_EQ(fault_of("allowed_hosts: x\n"), "kvern.yaml line 1: `allowed_hosts` is a list");
  EXPECT_EQ(fault_of("- a\n"), "kvern.yaml line 1: a config file is a map of keys to values");
  EXPECT_EQ(fault_of("engine: magic\n"), "kvern.yaml line 1: `engine` is `embedded` or `scripted:FILE`");
  EXPECT_EQ(fault_of("log_level: loud\n"), "kvern.yaml line 1: `log_level` is one of debug, info, warn, error, off");
  EXPECT_EQ(fault_of("models: [{alias: x}]\n"),
            "kvern.yaml line 1: unknown key `alias` in `models`; did you mean `aliases`?");
  EXPECT_THAT(fault_of("limits: {json_dept: 5}\n"), HasSubstr("json_depth"));
  EXPECT_THAT(fault_of("a: [1\n"), HasSubstr("kvern.yaml line"));
  EXPECT_EQ(fault_of("ctx: 5\nctx: 6\n"), "kvern.yaml line 2: `ctx` stands here twice");
  EXPECT_EQ(fault_of("limits: {json_depth: 5, json_depth: 6}\n"), "kvern.yaml line 1: `json_depth` stands here twice");
  EXPECT_EQ(fault_of("ctx: 5\n---\nctx: 6\n"), "kvern.yaml: holds several YAML documents; one is read");
  EXPECT_EQ(fault_of(""), "accepted");
}

TEST(Settings, AFolderIsNoConfigFile) {
  Settings settings;
  EXPECT_FALSE(apply_file(settings, "/").ok());
}

TEST(Settings, UnknownVariablesAreSaid) {
  const char* const environment[] = {"PATH=/bin", "KVERN_PORT=1", "KVERN_PROT=5", nullptr};
  EXPECT_EQ(unknown_variables(environment),
            std::vector<std::string>{"the variable KVERN_PROT means nothing to kvern; did you mean KVERN_PORT?"});
}

TEST(Settings, PrintedSettingsReadBackTheSame) {
  Settings settings;
  ASSERT_TRUE(apply_yaml(settings,
                         "port: 9000\nmodel: '/a b/c: d.gguf'\nalias: ['x*']\nmodels: [{name: m, aliases: [y]}]\n"
                         "allowed_hosts: [kv.example]\nlimits: {json_depth: 64}\ndrain_deadline: 2m\n",
                         "f")
                  .ok());
  const std::string printed = print_settings(settings);
  Settings again;
  const auto applied = apply_yaml(again, printed, "printed");
  ASSERT_TRUE(applied.ok()) << applied.error().message << "\n" << printed;
  EXPECT_EQ(print_settings(again), printed);
  EXPECT_EQ(again.model, "/a b/c: d.gguf");
}

TEST(Settings, EachHasItsFlagVariableAndHelp) {
  std::set<std::string> flags;
  for (const auto& setting : setting_table()) {
    EXPECT_TRUE(flags.insert(setting.flag()).second) << setting.key;
    EXPECT_FALSE(setting.help.empty());
  }
  EXPECT_TRUE(flags.contains("--kv-cache-tokens"));
}

TEST(Duration, Units) {
  EXPECT_EQ(parse_duration("30s")->count(), 30'000);
  EXPECT_EQ(parse_duration("30")->count(), 30'000);
  EXPECT_EQ(parse_duration("500ms")->count(), 500);
  EXPECT_EQ(parse_duration("2m")->count(), 120'000);
  for (const char* wrong : {"", "s", "-1s", "1d", "99999999999999999999s", "999999999h"}) {
    EXPECT_FALSE(parse_duration(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace kvern::app

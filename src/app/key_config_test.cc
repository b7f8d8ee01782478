#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/settings.h"
#include "base/sha256.h"

namespace kvern::app {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kDigest(64, 'a');

std::string fault_of(const std::string& keys) {
  Settings settings;
  const auto applied = apply_yaml(settings, "port: 1\nkeys: " + keys + "\n", "kvern.yaml");
  return applied.ok() ? "accepted" : applied.error().message;
}

TEST(KeyConfig, ReadsEachField) {
  Settings settings;
  const auto applied = apply_yaml(settings,
                                  "keys:\n  - {name: a, tenant: acme, sha256: " + std::string(64, 'B') +
                                      "}\n  - {name: b, tenant: ops, env: KEY_B, trusted: true, admin: true}\n",
                                  "f.yaml");
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  ASSERT_EQ(settings.keys.size(), 2U);
  EXPECT_EQ(settings.keys[0].sha256, std::string(64, 'b')) << "hex digits in either case";
  EXPECT_FALSE(settings.keys[0].admin || settings.keys[0].trusted);
  EXPECT_EQ(settings.keys[0].where, "f.yaml line 2");
  EXPECT_TRUE(settings.keys[1].admin && settings.keys[1].trusted);
  EXPECT_EQ(settings.keys[1].env, "KEY_B");
}

TEST(KeyConfig, FaultsSayWhatIsToStandThere) {
  struct Row {
    std::string yaml;
    std::string said;
  };
  const Row rows[] = {
      {"{name: a}", "`keys` is a list of {name, tenant"},
      {"[secret]", "`keys` is a list of {name, tenant"},
      {"[{tenant: t, sha256: " + kDigest + "}]", "needs a name"},
      {"[{name: a, sha256: " + kDigest + "}]", "the key `a` needs a tenant"},
      {"[{name: a, tenant: t}]", "the key `a` needs either sha256"},
      {"[{name: a, tenant: t, env: E, sha256: " + kDigest + "}]", "the key `a` needs either sha256"},
      {"[{name: a, tenant: t, sha256: my-plain-key}]", "not 64 hex digits"},
      {"[{name: a, tenant: t, sha256: " + std::string(63, 'a') + "}]", "not 64 hex digits"},
      {"[{name: a, tenant: t, sha256: " + std::string(64, 'g') + "}]", "not 64 hex digits"},
      {"[{name: a, tennant: t}]", "unknown key `tennant` in `keys`; did you mean `tenant`?"},
      {"[{name: a, key: k}]", "unknown key `key` in `keys`"},
      {"[{name: a, name: b}]", "`name` stands here twice"},
      {"[{name: a, tenant: t, env: E, admin: yes please}]", "`admin` is true or false"},
      {"[{name: a, tenant: [t], env: E}]", "`tenant` is a word"},
      {"[{name: a, tenant: '', env: E}]", "`tenant` is a word"},
  };
  for (const Row& row : rows) {
    const std::string fault = fault_of(row.yaml);
    EXPECT_THAT(fault, HasSubstr("kvern.yaml line 2: ")) << row.yaml;
    EXPECT_THAT(fault, HasSubstr(row.said));
    EXPECT_THAT(fault, Not(HasSubstr("my-plain-key"))) << "what was to be a digest may be the key";
  }
  EXPECT_EQ(fault_of("[]"), "accepted");
}

TEST(KeyConfig, PrintedKeysReadBackTheSame) {
  Settings settings;
  ASSERT_TRUE(apply_yaml(settings,
                         "keys: [{name: a, tenant: acme, sha256: " + std::string(64, '1') +
                             "}, {name: b, tenant: t, env: KEY_B, admin: true, trusted: true}]\n",
                         "f")
                  .ok());
  const std::string printed = print_settings(settings);
  Settings again;
  ASSERT_TRUE(apply_yaml(again, printed, "printed").ok()) << printed;
  EXPECT_EQ(print_settings(again), printed);
  EXPECT_THAT(printed, HasSubstr("KEY_B"));
}

}  // namespace
}  // namespace kvern::app

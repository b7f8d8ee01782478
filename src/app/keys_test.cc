#include "app/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/sha256.h"

namespace kvern::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const KeySpec kTenant{"agents", "acme", sha256_hex("key-a"), "", false, false, "f line 1"};
const KeySpec kProxy{"gateway", "shop", sha256_hex("key-p"), "", true, false, "f line 2"};
const KeySpec kAdmin{"ops", "ops", sha256_hex("key-z"), "", false, true, "f line 3"};

Result<Keys> make(const std::vector<KeySpec>& specs, const std::map<std::string, std::string>& variables = {}) {
  return Keys::make(specs, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string fault_of(const std::vector<KeySpec>& specs, const std::map<std::string, std::string>& variables = {}) {
  const auto keys = make(specs, variables);
  return keys.ok() ? "accepted" : keys.error().message;
}

net::RequestHead head(net::Headers headers) {
  net::RequestHead made;
  made.headers = std::move(headers);
  return made;
}

/// "key tenant", with "admin" behind, or the error's name.
std::string verdict(const Keys& keys, net::Headers headers, api::Guard guard = api::Guard::kTenant) {
  const auto caller = authenticate(head(std::move(headers)), keys, guard, {});
  if (!caller) return to_string(caller.error().code);
  return caller->key + " " + caller->tenant + (caller->admin ? " admin" : "");
}

TEST(Keys, FaultsNameTheEntry) {
  EXPECT_EQ(fault_of({kTenant, kProxy, kAdmin}), "accepted");
  KeySpec twin = kTenant;
  twin.name = "twin";
  twin.where = "f line 9";
  EXPECT_THAT(fault_of({kTenant, twin}), AllOf(HasSubstr("f line 9"), HasSubstr("`twin`"), HasSubstr("`agents`")));
  twin.name = "agents";
  twin.sha256 = sha256_hex("other");
  EXPECT_THAT(fault_of({kTenant, twin}), HasSubstr("has the name of another one"));

  const KeySpec named{"by name", "t", "", "KEY_VARIABLE", false, false, "f line 4"};
  EXPECT_THAT(fault_of({named}), AllOf(HasSubstr("f line 4"), HasSubstr("KEY_VARIABLE"), HasSubstr("not set")));
  EXPECT_THAT(fault_of({named}, {{"KEY_VARIABLE", ""}}), HasSubstr("not set"));
  EXPECT_EQ(fault_of({named}, {{"KEY_VARIABLE", "secret"}}), "accepted");
  // One by its digest, one by a variable: still the same key, and not told.
  EXPECT_THAT(fault_of({kTenant, named}, {{"KEY_VARIABLE", "key-a"}}),
              AllOf(HasSubstr("the same key as `agents`"), Not(HasSubstr("key-a"))));
}

TEST(Keys, AKeyComesAsBearerOrInAHeaderOfItsOwn) {
  const auto keys = make({kTenant, kProxy, kAdmin});
  ASSERT_TRUE(keys.ok());
  struct Row {
    net::Headers headers;
    std::string verdict;
  };
  const Row rows[] = {
      {{{"Authorization", "Bearer key-a"}}, "agents acme"},
      {{{"authorization", "bearer  key-a "}}, "agents acme"},
      {{{"X-Api-Key", "key-a"}}, "agents acme"},
      {{{"x-api-key", "key-z"}}, "ops ops admin"},
      {{{"authorization", "Bearer key-a"}, {"x-api-key", "key-a"}}, "agents acme"},
      {{{"authorization", "Bearer key-a"}, {"x-api-key", "key-z"}}, "unauthorized"},
      {{{"authorization", "Bearer nope"}, {"x-api-key", "key-z"}}, "unauthorized"},
      {{{"authorization", "Bearer key-a"}, {"authorization", "Bearer nope"}}, "unauthorized"},
      {{}, "unauthorized"},
      {{{"authorization", "Bearer"}}, "unauthorized"},
      {{{"authorization", "Bearer "}}, "unauthorized"},
      {{{"authorization", "key-a"}}, "unauthorized"},
      {{{"authorization", "Basic key-a"}}, "unauthorized"},
      {{{"x-api-key", ""}}, "unauthorized"},
      {{{"x-api-key", "key-A"}}, "unauthorized"},
      {{{"x-api-key", "key-a\0"}}, "agents acme"},  // the literal ends there
      {{{"x-api-key", kTenant.sha256}}, "unauthorized"},
      {{{"x-api-key", "x' -- "}}, "unauthorized"},
      {{{"x-api-key", std::string(60'000, 'a')}}, "unauthorized"},
  };
  for (const Row& row : rows) EXPECT_EQ(verdict(*keys, row.headers), row.verdict);
}

TEST(Keys, EveryRouteAsksForWhatItsGuardSays) {
  const auto keys = make({kTenant, kProxy, kAdmin});
  ASSERT_TRUE(keys.ok());
  for (const auto& endpoint : api::endpoints()) {
    SCOPED_TRACE(endpoint.path);
    const bool open = endpoint.guard == api::Guard::kOpen;
    const bool for_admins = endpoint.guard == api::Guard::kAdmin;
    EXPECT_EQ(verdict(*keys, {}, endpoint.guard), open ? " default" : "unauthorized");
    EXPECT_EQ(verdict(*keys, {{"x-api-key", "wrong"}}, endpoint.guard), open ? " default" : "unauthorized");
    EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-a"}}, endpoint.guard),
              open ? " default" : (for_admins ? "forbidden" : "agents acme"));
    EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-z"}}, endpoint.guard), open ? " default" : "ops ops admin");
    EXPECT_EQ(verdict({}, {}, endpoint.guard), " default admin") << "a server without keys";
  }
}

TEST(Keys, OnlyATrustedKeySpeaksForATenant) {
  const auto keys = make({kTenant, kProxy, kAdmin});
  ASSERT_TRUE(keys.ok());
  const std::pair<std::string, std::string> other{"X-Tenant-Id", "other"};
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-a"}, other}), "agents acme");
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-z"}, other}), "ops ops admin");
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-p"}, other}), "gateway other");
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-p"}}), "gateway shop");
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-p"}, {"x-tenant-id", " "}}), "gateway shop");
  EXPECT_EQ(verdict({}, {other}), " other admin");
  EXPECT_EQ(verdict({}, {{"authorization", "Bearer none"}}), " default admin") << "keys are not looked at";

  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-p"}, other, {"x-tenant-id", "more"}}), "invalid_request");
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-a"}, other, {"x-tenant-id", "more"}}), "agents acme");
  const std::pair<std::string, std::string> longest{"x-tenant-id", std::string(513, 't')};
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-p"}, longest}), "invalid_request");
  EXPECT_EQ(verdict(*keys, {{"x-api-key", "key-a"}, longest}), "agents acme");
}

TEST(Keys, RefusalsAreEqualWhateverTheKey) {
  const auto keys = make({kTenant});
  ASSERT_TRUE(keys.ok());
  const auto refusal = [&](const std::string& key) {
    return authenticate(head({{"x-api-key", key}}), *keys, api::Guard::kTenant, {}).error();
  };
  EXPECT_EQ(refusal("a"), refusal("%s%n../../etc/hostname"));
  EXPECT_THAT(refusal("canary").message, Not(HasSubstr("canary")));
}

}  // namespace
}  // namespace kvern::app

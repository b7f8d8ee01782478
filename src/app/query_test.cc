#include "app/query.h"

#include <gtest/gtest.h>

namespace kvern::app {
namespace {

TEST(Query, ValuesByName) {
  struct Case {
    const char* query;
    const char* name;
    std::optional<std::string> value;
  };
  for (const auto& [query, name, value] : std::initializer_list<Case>{
           {"a=1&b=2", "a", "1"},
           {"a=1&b=2", "b", "2"},
           {"a=1&a=2", "a", "1"},
           {"a=1&b=2", "c", std::nullopt},
           {"", "a", std::nullopt},
           {"a", "a", ""},
           {"ab=1", "a", std::nullopt},
           {"&&a=%2Fx%20", "a", "/x "},
           {"a=%zz", "a", std::nullopt},
           {"a=b=c", "a", "b=c"},
       }) {
    EXPECT_EQ(query_value(query, name), value) << query << " " << name;
  }
}

}  // namespace
}  // namespace kvern::app

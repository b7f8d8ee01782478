#include "base/secret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>
#include <type_traits>

namespace kvern {
namespace {

template <typename T, typename = void>
struct Streams : std::false_type {};
template <typename T>
struct Streams<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<const T&>())>> : std::true_type {};

TEST(Secret, CannotBePrinted) {
  static_assert(!Streams<Secret>::value);
  static_assert(!fmt::is_formattable<Secret>::value);
  static_assert(!std::is_convertible_v<Secret, std::string>);
  static_assert(!std::is_convertible_v<Secret, std::string_view>);
}

TEST(Secret, ComparesWhole) {
  const Secret secret("sk-abc");
  EXPECT_TRUE(secret.equals("sk-abc"));
  EXPECT_FALSE(secret.equals("sk-abd"));
  EXPECT_FALSE(secret.equals("sk-ab"));
  EXPECT_FALSE(secret.equals("sk-abcd"));
  EXPECT_FALSE(secret.equals(""));
}

TEST(Secret, MovesAway) {
  Secret from("value");
  const Secret to(std::move(from));
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): a moved-from secret holds nothing
  EXPECT_EQ(to.reveal(), "value");
}

}  // namespace
}  // namespace kvern

#include "base/seal.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

Seal with_key(char fill) { return Seal(Secret(std::string(Seal::kKeyBytes, fill))); }

TEST(Seal, OpensElsewhereWithTheSameKey) {
  const Seal here = with_key('k');
  const Seal there = with_key('k');
  for (const std::string& text :
       {std::string(), std::string("thinking"), std::string("a\0b\xF0\x9F", 5), std::string(100'000, 'x')}) {
    const std::string sealed = here.seal("reasoning", text);
    EXPECT_EQ(sealed.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
              std::string::npos);
    EXPECT_EQ(there.open("reasoning", sealed), text);
  }
}

TEST(Seal, HidesTheTextAndRepeatsItself) {
  const Seal seal = with_key('k');
  EXPECT_EQ(seal.seal("p", "text"), seal.seal("p", "text"));
  EXPECT_NE(seal.seal("p", "text"), seal.seal("p", "tex!"));
  EXPECT_NE(seal.seal("p", "text"), seal.seal("pt", "ext"));
}

TEST(Seal, StaysShutForOtherKeysAndPurposes) {
  const std::string sealed = with_key('k').seal("reasoning of ann", "secret");
  EXPECT_FALSE(with_key('l').open("reasoning of ann", sealed));
  EXPECT_FALSE(with_key('k').open("reasoning of bob", sealed));
  EXPECT_FALSE(with_key('k').open("", sealed));
}

TEST(Seal, StaysShutWhenAnyCharacterIsChangedOrCut) {
  const Seal seal = with_key('k');
  const std::string sealed = seal.seal("p", "some text");
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(seal.open("p", changed)) << i;
    EXPECT_FALSE(seal.open("p", sealed.substr(0, i))) << i;
  }
  for (const char* foreign : {"", "=", "eA==", "gAAAAABh", "not base64!", "AAAA"})
    EXPECT_FALSE(seal.open("p", foreign));
  EXPECT_FALSE(seal.open("p", sealed + "A"));
  EXPECT_FALSE(seal.open("p", sealed + "="));
}

TEST(Seal, StaysShutWhereALetterHasItsHighestBitSet) {
  const Seal seal(Secret(std::string(Seal::kKeyBytes, 'k')));
  std::string sealed = seal.seal("p", "text");
  ASSERT_TRUE(seal.open("p", sealed));
  for (char& letter : sealed) {
    letter = static_cast<char>(letter | '\x80');
    EXPECT_FALSE(seal.open("p", sealed));
    letter = static_cast<char>(letter & '\x7F');
  }
}

TEST(Seal, AFreshKeyIsAnother) {
  const Secret key = make_seal_key();
  EXPECT_EQ(key.reveal().size(), Seal::kKeyBytes);
  EXPECT_FALSE(Seal(key).open("p", Seal(make_seal_key()).seal("p", "text")));
}

}  // namespace
}  // namespace kvern

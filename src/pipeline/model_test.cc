#include "pipeline/model.h"

#include <gtest/gtest.h>

namespace kvern::pipeline {
namespace {

std::shared_ptr<const Model> model(std::string name, std::vector<std::string> aliases = {}) {
  auto made = std::make_shared<Model>();
  made->name = std::move(name);
  made->aliases = std::move(aliases);
  return made;
}

TEST(ModelSet, NamesBeforeAliasesInOrder) {
  const ModelSet models({model("a", {"gpt-*", "b"}), model("b", {"*"})});
  EXPECT_EQ(models.find("a")->name, "a");
  EXPECT_EQ(models.find("b")->name, "b");
  EXPECT_EQ(models.find("gpt-5")->name, "a");
  EXPECT_EQ(models.find("claude")->name, "b");
}

TEST(ModelSet, AnEmptyNameIsTheOnlyModel) {
  EXPECT_EQ(ModelSet({model("a")}).find("")->name, "a");
  EXPECT_EQ(ModelSet({model("a"), model("b")}).find(""), nullptr);
  EXPECT_EQ(ModelSet({model("a")}).find("A"), nullptr);
}

}  // namespace
}  // namespace kvern::pipeline

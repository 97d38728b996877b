#include "fleet/model_table.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

using Known = std::optional<std::vector<std::string>>;

Result<ModelTable> Read(const std::string& text, const Known& known = std::nullopt) {
  const auto file = ConfigTable::Parse(text, "f.toml");
  return file ? ModelTable::Read(*file, known) : Result<ModelTable>(Fail(file.error()));
}

constexpr const char* kCanary =
    "[[model]]\nname = \"gpt-4\"\nto = [{ model = \"big\", weight = 95 }, "
    "{ model = \"next\", weight = 5 }]\nfallback = [\"small\"]\n";

TEST(ModelTable, AConversationKeepsItsModelAndWeightsAreKept) {
  const ModelTable table = *Read(kCanary, Known({"big", "next", "small"}));
  std::map<std::string, int> chosen;
  for (uint64_t conversation = 0; conversation < 10'000; ++conversation) {
    const auto plan = table.PlanFor("gpt-4", conversation);
    ASSERT_EQ(plan.size(), 2u);
    EXPECT_EQ(plan[1], "small");
    EXPECT_EQ(plan, table.PlanFor("gpt-4", conversation));
    ++chosen[plan[0]];
  }
  EXPECT_NEAR(chosen["next"], 500, 100);
  EXPECT_EQ(chosen["big"] + chosen["next"], 10'000);
}

TEST(ModelTable, MovesNoMoreConversationsThanItHasTo) {
  const ModelTable before = *Read(kCanary);
  const ModelTable after = *Read(
      "[[model]]\nname = \"gpt-4\"\nto = [{ model = \"big\", weight = 80 }, "
      "{ model = \"next\", weight = 20 }]\n");
  for (uint64_t conversation = 0; conversation < 10'000; ++conversation) {
    if (before.PlanFor("gpt-4", conversation)[0] == "next") {
      EXPECT_EQ(after.PlanFor("gpt-4", conversation)[0], "next");
    }
  }
}

TEST(ModelTable, EntriesMayNameEachOtherAndAModelOfTheirOwnName) {
  const ModelTable table = *Read(
      "[[model]]\nname = \"a\"\nto = [{ model = \"b\" }]\nfallback = [\"c\", \"small\"]\n"
      "[[model]]\nname = \"b\"\nto = [{ model = \"b\" }]\nfallback = [\"d\"]\n"
      "[[model]]\nname = \"c\"\nfallback = [\"d\", \"e\"]\n",
      Known({"b", "c", "d", "e", "small"}));
  EXPECT_THAT(table.PlanFor("a", 1), ElementsAre("b", "d", "c", "e", "small"));
  EXPECT_THAT(table.PlanFor("c", 1), ElementsAre("c", "d", "e"));
  EXPECT_THAT(table.PlanFor("x", 1), ElementsAre("x"));
  EXPECT_THAT(table.TargetsOf("a"), ElementsAre("b"));
  EXPECT_THAT(table.TargetsOf("x"), ElementsAre("x"));
  EXPECT_THAT(Read(kCanary)->TargetsOf("gpt-4"), ElementsAre("big", "next"));
}

TEST(ModelTable, BoundsWhatOneRequestIsTriedWith) {
  std::string fallback;
  for (size_t i = 0; i < kModelTargetsMax; ++i) {
    fallback += "\"m" + std::to_string(i) + "\",";
  }
  const auto table = Read("[[model]]\nname = \"a\"\nfallback = [" + fallback + "]\n");
  EXPECT_EQ(table->PlanFor("a", 1).size(), kModelsOfRequestMax);
}

TEST(ModelTable, SaysWhatIsWrongAndWhere) {
  const Known known = {{"big", "small"}};
  const std::pair<std::string, const char*> kCases[] = {
      {"[[model]]\nto = []\n", "f.toml:1:1: model[0].name: is missing"},
      {"[[model]]\nname = \"a\"\n", "f.toml:1:1: model[0].to: is missing, and so is fallback"},
      {"[[model]]\nname = \"a\"\nto = \"big\"\n", "f.toml:3:6: model[0].to: "},
      {"[[model]]\nname = \"a\"\nto = [{ model = \"none\" }]\n",
       "f.toml:3:17: model[0].to[0].model: there is no model none; upstreams list big, small"},
      {"[[model]]\nname = \"a\"\nto = [{ model = \"big\" }]\nfallback = [\"none\"]\n",
       "f.toml:4:12: model[0].fallback: there is no model none"},
      {"[[model]]\nname = \"a\"\nfallback = [\"big\"]\n", "f.toml:2:8: model[0].name: there is no"},
      {"[[model]]\nname = \"a\"\nto = [{ model = \"big\", weight = -1 }]\n",
       "f.toml:3:33: model[0].to[0].weight: must be from 0"},
      {"[[model]]\nname = \"a\"\nto = [{ model = \"big\", weight = 0 }]\n",
       "f.toml:3:6: model[0].to: a weight has to be above 0"},
      {"[[model]]\nname = \"a\"\nto = [{ model = \"big\" }, { model = \"big\" }]\n",
       "f.toml:3:36: model[0].to[1].model: big stands there twice"},
      {"[[model]]\nname = \"a\"\nfallback = [\"a\"]\n", "f.toml:3:12: model[0].fallback: a can't"},
      {"[[model]]\nname = \"a\"\nfallback = [\"b\"]\n[[model]]\nname = \"b\"\n"
       "to = [{ model = \"c\" }]\n[[model]]\nname = \"c\"\nfallback = [\"a\"]\n",
       "f.toml:3:12: model[0].fallback: leads back to itself: a, then b, then c, then a"},
      {"[[model]]\nname = \"x\"\nto = [{ model = \"a\" }]\n[[model]]\nname = \"a\"\n"
       "to = [{ model = \"b\" }]\n[[model]]\nname = \"b\"\nto = [{ model = \"a\" }]\n",
       "f.toml:6:6: model[1].to: leads back to itself: a, then b, then a"},
      {"[[model]]\nname = \"a\"\nfallback = [\"big\"]\n[[model]]\nname = \"a\"\n"
       "fallback = [\"big\"]\n",
       "f.toml:5:8: model[1].name: another model is called a already"},
      {"[[model]]\nname = \"a\"\nfallbacks = [\"big\"]\n", "f.toml:3:13: model[0].fallbacks: "},
      {"[[model]]\nname = \"a\"\nto = [{ model = \"big\", share = 1 }]\n", "f.toml:3:32: "},
  };
  for (const auto& [text, words] : kCases) {
    const auto table = Read(text, known);
    ASSERT_FALSE(table) << text;
    EXPECT_THAT(table.error().detail, StartsWith(words)) << text;
  }
  // Who hasn't said what it serves may serve it.
  EXPECT_TRUE(Read("[[model]]\nname = \"a\"\nto = [{ model = \"none\" }]\n"));
}

}  // namespace
}  // namespace fak::fleet

#include "base/json_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/limits.h"

namespace fak {
namespace {

// Every document, and every beginning and every single changed byte of it.
std::vector<std::string> Texts() {
  const std::vector<std::string> whole = {
      R"({"a":[1,-2.5e3,true,null,{"b":"é\n\"x"}],"a":"last","n":12345678901234567890})",
      R"([[],{},"\ud83d\ude00","\ud83d",1e999,-0,1.0,0.1])",
      " [ 1 , 2 ] ",
      "\"text\"",
      "17",
      "\xEF\xBB\xBF{}",
      "{\"a\":\"\xC3\xA9\xFF\"}",
      "{\"a\":\"\x01\"}",
      std::string(3 * 17 * 1024, ' ') + "[1]",
      std::string(limits::kJsonDepthMax, '[') + std::string(limits::kJsonDepthMax, ']'),
      std::string(limits::kJsonDepthMax + 1, '[') + std::string(limits::kJsonDepthMax + 1, ']'),
  };
  std::vector<std::string> texts = whole;
  for (const std::string& text : whole) {
    for (size_t i = 0; i < std::min<size_t>(text.size(), 100); ++i) {
      texts.push_back(text.substr(0, i));
      for (const char c : {'"', '\\', ',', '}', ']', '0', '\0', '\x80'}) {
        texts.push_back(text);
        texts.back()[i] = c;
      }
    }
  }
  return texts;
}

TEST(JsonReader, TakesWhatParseJsonTakesAndReadsTheSame) {
  JsonReader reader;
  int taken = 0;
  for (const std::string& text : Texts()) {
    const Result<Json> tree = ParseJson(text);
    const Result<JsonView> view = reader.Read(text);
    ASSERT_EQ(tree.has_value(), view.has_value()) << text;
    if (!tree) {
      EXPECT_EQ(view.error().detail, tree.error().detail) << text;
      continue;
    }
    ++taken;
    EXPECT_EQ(view->Copy(), *tree) << text;
    EXPECT_EQ(view->AsInt(), JsonView(*tree).AsInt()) << text;
  }
  EXPECT_GT(taken, 100);
}

class JsonViewTest : public ::testing::TestWithParam<bool> {
 protected:
  // Of the reader's own memory, or of a tree.
  JsonView View(std::string_view text) {
    if (GetParam()) {
      tree_ = *ParseJson(text);
      return tree_;
    }
    return *reader_.Read(text);
  }

 private:
  JsonReader reader_;
  Json tree_;
};

TEST_P(JsonViewTest, FindsTheLastMemberOfAName) {
  const JsonView view = View(R"({"a":1,"b":{"c":"x"},"a":2})");
  EXPECT_EQ(view.Find("a").AsInt(), 2);
  EXPECT_EQ(view.Find("b").Find("c").string(), "x");
  EXPECT_FALSE(view.Find("z"));
  EXPECT_FALSE(view.Find("a").Find("c")) << "a number has no members";
}

TEST_P(JsonViewTest, FindsSeveralMembersInOneWalk) {
  const JsonView view = View(R"({"a":1,"b":{"c":"x"},"a":2,"ab":3})");
  const auto [a, absent, b] = view.FindEach({"a", "z", "b"});
  EXPECT_EQ(a.AsInt(), 2);
  EXPECT_FALSE(absent);
  EXPECT_EQ(b.Find("c").string(), "x");
  const auto [none] = a.FindEach({"c"});
  EXPECT_FALSE(none) << "a number has no members";
  EXPECT_FALSE(JsonView().FindEach({"a"})[0]);
}

TEST_P(JsonViewTest, WalksAnArrayAndNothingElse) {
  const JsonView view = View(R"({"list":[1,"two",null],"none":[],"text":"x"})");
  int count = 0;
  for (const JsonView each : view.Find("list")) {
    ++count;
    EXPECT_EQ(each.is_string(), count == 2);
    EXPECT_EQ(each.is_null(), count == 3);
  }
  EXPECT_EQ(count, 3);
  EXPECT_TRUE(view.Find("none").empty());
  EXPECT_TRUE(view.Find("text").empty());
  EXPECT_TRUE(view.Find("absent").empty());
}

TEST_P(JsonViewTest, ReadsAsEmptyWhatAValueIsNot) {
  const JsonView view = View(R"({"i":7,"r":1.0,"f":1.5,"big":12345678901234567890,"s":"7"})");
  EXPECT_EQ(view.Find("i").AsInt(), 7);
  EXPECT_EQ(view.Find("r").AsInt(), 1);
  EXPECT_EQ(view.Find("f").AsInt(), std::nullopt);
  EXPECT_EQ(view.Find("big").AsInt(), std::nullopt);
  EXPECT_EQ(view.Find("s").AsInt(), std::nullopt);
  EXPECT_EQ(view.Find("i").string(), "");
  EXPECT_TRUE(view.Find("big").is_number());
  EXPECT_TRUE(view.is_object());
  EXPECT_FALSE(JsonView().is_null());
}

INSTANTIATE_TEST_SUITE_P(OfATapeAndOfATree, JsonViewTest, ::testing::Bool());

}  // namespace
}  // namespace fak

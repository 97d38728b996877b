#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak {
namespace {

using testing::ElementsAre;

constexpr const char* kText = R"(name = "fleet"
port = 8000
ratio = 0.5
on = true
when = 2026-11-29
hosts = ["a", "b"]
mixed = ["a", 1]

[limits]
body = 3
[[upstream]]
url = "http://one"
[[upstream]]
url = "http://two"
)";

TEST(ConfigTable, ReadsTypedValues) {
  const auto config = ConfigTable::Parse(kText, "f.toml");
  ASSERT_TRUE(config) << config.error().detail;
  EXPECT_EQ(**config->String("name"), "fleet");
  EXPECT_EQ(**config->Int("port"), 8000);
  EXPECT_EQ(**config->Float("ratio"), 0.5);
  EXPECT_EQ(**config->Float("port"), 8000.0);
  EXPECT_EQ(**config->Bool("on"), true);
  EXPECT_THAT(**config->Strings("hosts"), ElementsAre("a", "b"));
  EXPECT_THAT(**config->Texts("mixed"), ElementsAre("a", "1"));
  EXPECT_THAT(**config->Texts("ratio"), ElementsAre("0.5"));
  EXPECT_THAT(**config->Texts("on"), ElementsAre("true"));
  EXPECT_EQ(*config->Texts("absent"), std::nullopt);
  EXPECT_EQ(*config->String("absent"), std::nullopt);
  EXPECT_EQ(**(*config->Table("limits"))->Int("body"), 3);
  const auto upstreams = config->Tables("upstream");
  ASSERT_EQ(upstreams->size(), 2u);
  EXPECT_EQ(**upstreams->at(1).String("url"), "http://two");
  EXPECT_TRUE(config->Tables("none")->empty());
  EXPECT_THAT((*config->Table("limits"))->Keys(), ElementsAre("body"));
}

TEST(ConfigTable, ErrorsNameFileLineColumnAndKey) {
  const auto config = ConfigTable::Parse(kText, "f.toml");
  const auto detail = [](const auto& result) {
    return result ? std::string("no error") : result.error().detail;
  };
  EXPECT_EQ(detail(config->Int("name")), "f.toml:1:8: name: must be an integer, is a string");
  EXPECT_EQ(detail(config->String("when")),
            "f.toml:5:8: when: must be a string, is a date or time");
  EXPECT_EQ(detail(config->Strings("mixed")),
            "f.toml:7:15: mixed[1]: must be a string, is an integer");
  EXPECT_EQ(detail((*config->Table("limits"))->Bool("body")),
            "f.toml:10:8: limits.body: must be a boolean, is an integer");
  EXPECT_EQ(detail(config->Texts("when")),
            "f.toml:5:8: when: must be a string, a number or a boolean, is a date or time");
  EXPECT_EQ((*config->Table("limits"))->Bool("body").error().field, "limits.body");
  EXPECT_EQ(detail(config->Table("port")), "f.toml:2:8: port: must be a table, is an integer");
  EXPECT_EQ(detail(config->Tables("upstream")->at(0).RefuseUnknownKeys({"uri"})),
            "f.toml:12:7: upstream[0].url: unknown key (known: uri)");
  EXPECT_EQ(config->ErrorAt("port", "must be below 100").detail,
            "f.toml:2:8: port: must be below 100");
}

TEST(ConfigTable, RefusesBrokenTextWithItsPlace) {
  for (const char* text : {"a = ", "a = 1\na = 2", "[a", "x = \"\xFF\"", "a = [1,"}) {
    const auto config = ConfigTable::Parse(text, "bad.toml");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(config.error().detail.starts_with("bad.toml:")) << config.error().detail;
  }
  const std::string deep = "a = " + std::string(5000, '[') + std::string(5000, ']');
  EXPECT_FALSE(ConfigTable::Parse(deep, "deep.toml"));
  EXPECT_EQ(ConfigTable::Load("/nonexistent.toml").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace fak

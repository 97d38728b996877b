#include "metrics/text_format.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"

namespace fak::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Samples as "name|label=value|... number".
std::vector<std::string> Parse(std::string_view text, TextCounts* maybe_counts = nullptr) {
  std::vector<std::string> lines;
  const auto counts = ParseText(
      text,
      [&](const TextSample& sample) {
        std::string line(sample.name);
        for (const TextLabel& label : sample.labels) {
          line += "|" + std::string(label.name) + "=" + std::string(label.value);
        }
        char number[32];
        std::snprintf(number, sizeof number, " %g", sample.value);
        lines.push_back(line + number);
      },
      [](std::string_view, std::string_view) {});
  if (maybe_counts != nullptr) {
    *maybe_counts = *counts;
  }
  return lines;
}

TEST(ParseText, ReadsWhatTheFormatAllows) {
  EXPECT_THAT(Parse("# HELP a what\n"
                    "# TYPE a counter\n"
                    "a 1\n"
                    "  vllm:b{} 2.5e3 1700000000000\r\n"
                    "\n"
                    "c{x=\"1\",y=\"two words\",} +Inf\n"
                    "c { x = \"\" } -Inf\n"
                    "# anything {\n"
                    "d_bucket{le=\"+Inf\"}\t7"),
              ElementsAre("a 1", "vllm:b 2500", "c|x=1|y=two words inf", "c|x= -inf",
                          "d_bucket|le=+Inf 7"));
}

TEST(ParseText, UnescapesLabelValues) {
  EXPECT_THAT(Parse(R"(a{p="C:\\d",q="say \"}\" ",r="l1\nl2",s="\d"} 1)"),
              ElementsAre("a|p=C:\\d|q=say \"}\" |r=l1\nl2|s=\\d 1"));
}

TEST(ParseText, TakesNotANumberHoweverItIsSpelled) {
  size_t seen = 0;
  for (const char* text : {"a NaN", "a nan", "a -nan", "a +NAN"}) {
    ASSERT_TRUE(ParseText(
        text, [&](const TextSample& sample) { seen += std::isnan(sample.value) ? 1 : 0; },
        [](std::string_view, std::string_view) {}));
  }
  EXPECT_EQ(seen, 4);
}

TEST(ParseText, CountsAndSkipsLinesThatAreNoSamples) {
  for (const char* line : {"<html>", "a", "a{", "a{x} 1", "a{x=1} 1", "a{x=\"1} 1", "a{x=\"1\\",
                           "a{x=\"1\" y=\"2\"} 1", "a one", "a 1 2 3", "a 1 soon", "1a 1",
                           "{x=\"1\"} 1", "a --1", "a 1e999"}) {
    TextCounts counts;
    EXPECT_THAT(Parse(std::string(line) + "\nb 1\n", &counts), ElementsAre("b 1")) << line;
    EXPECT_EQ(counts.samples, 1) << line;
    EXPECT_EQ(counts.refused_lines, 1) << line;
  }
}

TEST(ParseText, GivesHelp) {
  std::string help;
  ASSERT_TRUE(ParseText(
      "# HELP a:b in terms of  blocks.\n# TYPE a:b gauge\n#HELP\n", [](const TextSample&) {},
      [&](std::string_view name, std::string_view text) {
        help += std::string(name) + "|" + std::string(text) + ";";
      }));
  EXPECT_EQ(help, "a:b|in terms of  blocks.;");
}

TEST(ParseText, HoldsItsBounds) {
  std::string labels;
  for (size_t i = 0; i < limits::kExpositionLabelsMax; ++i) {
    labels += (i == 0 ? "x" : ",x") + std::to_string(i) + "=\"\\\\\"";
  }
  EXPECT_EQ(Parse("a{" + labels + "} 1").size(), 1);
  EXPECT_THAT(Parse("a{" + labels + ",y=\"\"} 1"), IsEmpty());
  const std::string large(limits::kExpositionBytesMax + 1, '\n');
  const auto refused =
      ParseText(large, [](const TextSample&) {}, [](std::string_view, std::string_view) {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPayloadTooLarge);
}

TEST(TextSample, AnAbsentLabelIsEmpty) {
  const TextLabel label{"x", "1"};
  const TextSample sample{"a", {&label, 1}, 1};
  EXPECT_EQ(sample.Label("x"), "1");
  EXPECT_EQ(sample.Label("y"), "");
}

}  // namespace
}  // namespace fak::metrics

// Renders the golden conversations, which Python's jinja2 rendered
// (tools/make-chat-template-goldens). FAK_CHAT_TEMPLATE_GOLDENS names another folder of such files:
// tests/real/chat_templates uses it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/chat_template.h"

namespace fak::text {
namespace {

constexpr std::string_view kTemplateSuffix = ".template.json";

std::filesystem::path GoldenFolder() {
  const char* folder = std::getenv("FAK_CHAT_TEMPLATE_GOLDENS");
  return folder == nullptr ? "tests/golden/chat_template" : folder;
}

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder())) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kTemplateSuffix)) {
      names.push_back(name.substr(0, name.size() - kTemplateSuffix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Json ReadGolden(const std::string& name) {
  std::ifstream file(GoldenFolder() / name);
  std::ostringstream text;
  text << file.rdbuf();
  Result<Json> json = ParseJson(text.str());
  EXPECT_TRUE(json.has_value()) << name;
  return json ? *json : Json();
}

ChatInput InputOf(const Json& given) {
  using namespace std::chrono;
  ChatInput input;
  const auto take = [&](const char* key, Json* out) {
    if (const Json* found = given.Find(key)) {
      *out = *found;
    }
  };
  take("messages", &input.messages);
  take("tools", &input.tools);
  take("documents", &input.documents);
  take("extra", &input.extra);
  if (const Json* add = given.Find("add_generation_prompt")) {
    input.add_generation_prompt = add->boolean();
  }
  if (const Json* bos = given.Find("bos_token")) {
    input.bos_token = bos->string();
  }
  if (const Json* eos = given.Find("eos_token")) {
    input.eos_token = eos->string();
  }
  input.now = sys_days(year(2025) / 3 / 9) + hours(14) + minutes(5) + seconds(6);
  return input;
}

Result<RenderedPrompt> ParseAndRender(const std::string& source, const Json& given) {
  TRY_ASSIGN(const ChatTemplate parsed, ChatTemplate::Parse(source));
  return parsed.Render(InputOf(given));
}

void CheckCase(const std::string& source, const Json& given, const Json& golden) {
  const Result<RenderedPrompt> prompt = ParseAndRender(source, given);
  if (const Json* text = golden.Find("text")) {
    ASSERT_TRUE(prompt.has_value()) << prompt.error().detail;
    EXPECT_EQ(prompt->text, text->string());
  } else if (const Json* raised = golden.Find("raised")) {
    ASSERT_FALSE(prompt.has_value()) << prompt->text;
    EXPECT_EQ(prompt.error().detail, raised->string());
  } else if (golden.Find("error")->string().starts_with("SecurityError")) {
    EXPECT_TRUE(prompt.has_value()) << prompt.error().detail;  // lists and dicts may be changed
  } else {
    EXPECT_FALSE(prompt.has_value()) << prompt->text;
  }
}

class ChatTemplateGolden : public testing::TestWithParam<std::string> {};

TEST_P(ChatTemplateGolden, RendersAsJinja2Does) {
  const Json inputs = ReadGolden("inputs.json");
  const Json golden = ReadGolden(GetParam() + std::string(kTemplateSuffix));
  const std::string& source = golden.Find("template")->string();
  const Json* cases = golden.Find("cases");
  ASSERT_FALSE(cases->object().empty());
  for (const auto& [name, outcome] : cases->object()) {
    SCOPED_TRACE(name);
    CheckCase(source, *inputs.Find(name), outcome);
  }
}

TEST(ChatTemplateConstructs, RenderAsJinja2Does) {
  if (std::getenv("FAK_CHAT_TEMPLATE_GOLDENS") != nullptr) {
    GTEST_SKIP() << "the other folder has templates only";
  }
  const Json golden = ReadGolden("constructs.json");
  ASSERT_FALSE(golden.Find("cases")->array().empty());
  for (const Json& construct : golden.Find("cases")->array()) {
    const std::string& source = construct.Find("template")->string();
    SCOPED_TRACE(source);
    CheckCase(source, *golden.Find("input"), construct);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ChatTemplateGolden, testing::ValuesIn(GoldenNames()),
                         [](const auto& file) {
                           std::string name = file.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace fak::text

// fuzz: links fak_text fak_base
// Any bytes as a chat template: it is parsed and rendered with a small conversation, or refused.
// What it prints is UTF-8, and the marks of user content lie inside the text, in order.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/utf8.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace fak::text::jinja {
namespace {

constexpr int kSteps = 20'000;  // instead of the millions that a real template may take

const Json& Conversation() {
  static const Json messages = *ParseJson(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "hé 🙂 <|im_end|>", "n": [1, 2.5, -3, true, null]},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "c1", "function": {"name": "f", "arguments": {"a": "x", "b": {"c": []}}}}]}])");
  return messages;
}

void RenderOnce(const Template& parsed) {
  Evaluator evaluator(parsed, {}, kSteps);
  evaluator.Define("messages", FromJson(Conversation(), true));
  evaluator.Define("add_generation_prompt", Value(true));
  evaluator.Define("bos_token", Value::String("<s>"));
  const Result<Text> text = evaluator.Run();
  if (!text) {
    CHECK(!text.error().detail.empty() || text.error().code == Code::kInvalidArgument);
    return;
  }
  CHECK(IsValidUtf8(text->bytes));
  size_t end = 0;
  for (const ByteRange& range : text->user) {
    CHECK(range.begin < range.end && range.begin >= end && range.end <= text->bytes.size());
    CHECK(end == 0 || range.begin > end);
    end = range.end;
  }
}

}  // namespace
}  // namespace fak::text::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = fak::text::jinja::ParseTemplate(source);
  if (parsed) {
    fak::text::jinja::RenderOnce(**parsed);
  }
  return 0;
}

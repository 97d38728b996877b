// fuzz: links fak_text fak_base
// Any bytes as an answer: the calls found don't depend on how it is cut, an answer without a tag is
// text, and what the scanner of arguments says of JSON is what the parser says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/json_scanner.h"
#include "text/tool_call_parser.h"

namespace {

using fak::text::JsonScanner;
using fak::text::ToolCallParser;
using fak::text::ToolCallPart;

struct Outcome {
  std::vector<ToolCallPart> parts;
  size_t calls = 0;
  bool in_arguments = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Parse(std::string_view answer, size_t step) {
  ToolCallParser parser({"f", "get_weather"});
  Outcome outcome;
  for (; !answer.empty(); answer.remove_prefix(std::min(step, answer.size()))) {
    parser.Feed(answer.substr(0, step), outcome.parts);
  }
  parser.Finish(outcome.parts);
  outcome.calls = parser.calls();
  outcome.in_arguments = parser.in_arguments();
  return outcome;
}

bool Scans(std::string_view text) {
  JsonScanner scanner;
  bool ended = false;
  for (const char byte : text) {
    const JsonScanner::Place place = scanner.Feed(byte);
    if (place == JsonScanner::Place::kInvalid) {
      return false;
    }
    ended = place == JsonScanner::Place::kEnd;
  }
  return ended;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Parse(answer, std::max<size_t>(1, size));
  for (const size_t step : {size_t{1}, size_t{3}}) {
    CHECK(Parse(answer, step) == whole) << "other parts in steps of " << step;
  }
  size_t calls = 0;
  std::string text;
  for (const ToolCallPart& part : whole.parts) {
    CHECK(!part.text.empty());
    calls += part.kind == ToolCallPart::Kind::kCall ? 1 : 0;
    text += part.kind == ToolCallPart::Kind::kText ? part.text : "";
  }
  CHECK(calls == whole.calls);
  if (calls == 0) {
    CHECK(text == answer);
  }
  if (const auto json = fak::ParseJson(answer);
      json && json->is_object() && answer.ends_with('}')) {
    CHECK(Scans(answer)) << "JSON that the scanner refuses";
  }
  return 0;
}

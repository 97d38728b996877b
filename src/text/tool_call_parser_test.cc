#include "text/tool_call_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

namespace fak::text {
namespace {

using Kind = ToolCallPart::Kind;

struct Outcome {
  std::vector<ToolCallPart> parts;
  bool in_arguments = false;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  for (const ToolCallPart& part : outcome.parts) {
    *out << (part.kind == Kind::kText   ? "text"
             : part.kind == Kind::kCall ? "call"
                                        : "arguments")
         << " [" << part.text << "] ";
  }
  *out << (outcome.in_arguments ? "cut off" : "");
}

Outcome Parse(const std::vector<std::string>& pieces) {
  ToolCallParser parser({"weather", "say \"hi\""});
  Outcome outcome;
  const auto add = [&outcome](const std::vector<ToolCallPart>& parts) {
    for (const ToolCallPart& part : parts) {
      if (part.kind != Kind::kCall && !outcome.parts.empty() &&
          outcome.parts.back().kind == part.kind) {
        outcome.parts.back().text += part.text;
      } else {
        outcome.parts.push_back(part);
      }
    }
  };
  for (const std::string& piece : pieces) {
    std::vector<ToolCallPart> parts;
    parser.Feed(piece, parts);
    add(parts);
  }
  std::vector<ToolCallPart> parts;
  parser.Finish(parts);
  add(parts);
  outcome.in_arguments = parser.in_arguments();
  return outcome;
}

// Whole, in two pieces cut at every byte, and byte by byte.
void Expect(const std::string& text, const std::vector<ToolCallPart>& parts,
            bool in_arguments = false) {
  const Outcome expected = {parts, in_arguments};
  EXPECT_EQ(Parse({text}), expected) << text;
  std::vector<std::string> bytes;
  for (size_t cut = 0; cut < text.size(); ++cut) {
    EXPECT_EQ(Parse({text.substr(0, cut), text.substr(cut)}), expected) << text << " at " << cut;
    bytes.push_back(text.substr(cut, 1));
  }
  EXPECT_EQ(Parse(bytes), expected) << text;
}

ToolCallPart Text(std::string text) {
  return {Kind::kText, std::move(text)};
}
ToolCallPart Call(std::string name) {
  return {Kind::kCall, std::move(name)};
}
ToolCallPart Arguments(std::string text) {
  return {Kind::kArguments, std::move(text)};
}

constexpr char kWeather[] =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

TEST(ToolCallParser, GivesTextWithoutCallsAsItIs) {
  for (const char* text : {"", "\n", "plain\n\ntext", "a < b, <tool>, </tool_call>", "<tool_cal",
                           "tail\n<", "\n\n\n", "é 🙂"}) {
    Expect(text, *text == '\0' ? std::vector<ToolCallPart>() : std::vector{Text(text)});
  }
}

TEST(ToolCallParser, FindsACallAndItsArgumentsAsTheyAreWritten) {
  Expect(kWeather, {Call("weather"), Arguments("{\"city\": \"Oslo\"}")});
  const std::string arguments =
      R"({ "a" :[1, -0.5e+3, {"b": null}], "c":"</tool_call> \" \u00e9 } {" , "d": {} })";
  Expect("<tool_call>{\"name\":\"weather\",\"arguments\":" + arguments + "}</tool_call>",
         {Call("weather"), Arguments(arguments)});
  Expect(R"(<tool_call>{"name": "say \u0022hi\"", "arguments": {}}</tool_call>)",
         {Call("say \"hi\""), Arguments("{}")});
}

TEST(ToolCallParser, TakesTheMembersOfACallInAnyOrder) {
  Expect(R"(<tool_call>{"arguments": {"name": "x", "a": [1]}, "name": "weather"}</tool_call>)",
         {Call("weather"), Arguments(R"({"name": "x", "a": [1]})")});
  Expect(R"(<tool_call>{"id": 7, "name": "weather", "arguments": {}, "x": {"y": []}}</tool_call>)",
         {Call("weather"), Arguments("{}")});
  Expect(R"(<tool_call>{"name": "weather"}</tool_call>)", {Call("weather"), Arguments("{}")});
}

TEST(ToolCallParser, KeepsTheTextAroundCalls) {
  const std::string call = kWeather;
  const ToolCallPart oslo = Arguments("{\"city\": \"Oslo\"}");
  Expect("Let me see.\n" + call, {Text("Let me see."), Call("weather"), oslo});
  Expect("Let me see. \n\n" + call, {Text("Let me see. \n"), Call("weather"), oslo});
  Expect(call + "\n" + call + " \r\n\t" + call + "\n",
         {Call("weather"), oslo, Call("weather"), oslo, Call("weather"), oslo});
  Expect(call + "\n\nDone.", {Call("weather"), oslo, Text("\n\nDone.")});
  Expect(call + "\nand\n" + call, {Call("weather"), oslo, Text("\nand"), Call("weather"), oslo});
  Expect(call + "\n<tool_call> is a tag", {Call("weather"), oslo, Text("\n<tool_call> is a tag")});
  Expect(call + "\n<tool_cal", {Call("weather"), oslo, Text("\n<tool_cal")});
}

TEST(ToolCallParser, TakesAMentionOfTheTagForText) {
  for (const char* text : {
           "Write <tool_call> and </tool_call> around it.",
           "`<tool_call>{`",
           "\n<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>",
           "<tool_call>{\"name\": 7}</tool_call>",
           "<tool_call>{\"name\": \"weather\", \"arguments\": \"Oslo\"}</tool_call>",
           "<tool_call>{\"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": {\"name\": \"weather\"}}</tool_call>",
           "<tool_call>[\"weather\"]</tool_call>",
           "<tool_call>{\"name\": <function-name>, \"arguments\": <args-json-object>}</tool_call>",
           "<tool_call>{\"name\": \"weather\", \"name\": \"weather\"}",
           "<tool_call>{\"arguments\": {}, \"arguments\": {}, \"name\": \"weather\"}",
           "<tool_call><tool_call><tool_call>",
           "<tool_call>",
           "<tool_call>{\"name\": \"wea",
           "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"weath",
       }) {
    Expect(text, {Text(text)});
  }
}

TEST(ToolCallParser, FindsACallBehindATagThatIsNone) {
  const std::string call = kWeather;
  for (const char* text : {"<tool_call>", "<tool_call>{\"arguments\": {\"a\": \"", "<tool_call> {",
                           "<tool_call>{\"name\": \"weather\", "}) {
    Expect(text + call, {Text(text), Call("weather"), Arguments("{\"city\": \"Oslo\"}")});
  }
}

TEST(ToolCallParser, SaysWhenTheArgumentsAreCutOff) {
  Expect("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Os",
         {Call("weather"), Arguments("{\"city\": \"Os")}, true);
  const std::string call = kWeather;
  const size_t end = call.find("}}") + 1;
  for (size_t cut = end; cut < call.size(); ++cut) {  // they are complete
    Expect(call.substr(0, cut), {Call("weather"), Arguments("{\"city\": \"Oslo\"}")});
  }
}

TEST(ToolCallParser, LetsAModelForgetTheEndOfACall) {
  const std::vector<ToolCallPart> oslo = {Call("weather"), Arguments("{\"a\": 1}")};
  const std::string call = "<tool_call>{\"name\": \"weather\", \"arguments\": {\"a\": 1}";
  Expect(call + "</tool_call>", oslo);
  Expect(call + "}", oslo);
  const std::string twice = call + "}\n" + call + "}";
  Expect(twice, {oslo[0], oslo[1], oslo[0], oslo[1]});
  Expect(call + "} Well.", {oslo[0], oslo[1], Text(" Well.")});
  Expect(call + "}}</tool_call>", {oslo[0], oslo[1], Text("}</tool_call>")});
}

TEST(ToolCallParser, GivesArgumentsThatAreNoJsonAsTheyAreWritten) {
  const std::string begin = "<tool_call>{\"name\": \"weather\", \"arguments\": ";
  Expect(begin + "{'city': 'Oslo'}}</tool_call> ok",
         {Call("weather"), Arguments("{'city': 'Oslo'}}"), Text(" ok")});
  Expect(begin + "{\"a\": 1</tool_call>", {Call("weather"), Arguments("{\"a\": 1")});
  Expect(begin + "{\"a\": x</tool", {Call("weather"), Arguments("{\"a\": x</tool")}, true);
}

TEST(ToolCallParser, HoldsABoundedBeginningOfACall) {
  const std::string begin = "<tool_call>{\"arguments\": {\"a\": \"";
  const std::string end = "\"}, \"name\": \"weather\"}</tool_call>";
  const size_t room = ToolCallParser::kHeldBytesMax - begin.size() - end.size();
  const std::string fits = begin + std::string(room, 'x') + end;
  EXPECT_EQ(Parse({fits}).parts.size(), 2u);
  const std::string blanks(2 * ToolCallParser::kHeldBytesMax, ' ');
  const std::string longer = begin + std::string(2 * room, 'x') + end;
  EXPECT_EQ(Parse({longer}), (Outcome{{Text(longer)}}));
  EXPECT_EQ(Parse({"<tool_call>" + blanks + "{"}), (Outcome{{Text("<tool_call>" + blanks + "{")}}));
  EXPECT_EQ(Parse({kWeather + blanks}).parts.back(), Text(blanks));
}

TEST(ToolCallParser, NeedsSpecialTokensWhereItsTagIsOne) {
  for (const auto& [type, needs] :
       {std::pair{TokenType::kControl, true}, std::pair{TokenType::kUserDefined, false}}) {
    Vocabulary vocabulary = SampleBpe("smollm");
    EXPECT_FALSE(ToolCallParser::NeedsSpecialTokens(**Tokenizer::Create(vocabulary)));
    vocabulary.tokens.Add("<tool_call>");
    vocabulary.types.push_back(type);
    EXPECT_EQ(ToolCallParser::NeedsSpecialTokens(**Tokenizer::Create(vocabulary)), needs);
  }
}

TEST(JsonScanner, AgreesWithTheParser) {
  for (const char* text : {"{}",
                           "[]",
                           " [ ] ",
                           "{\"a\":1}",
                           "{\"a\":1,}",
                           "[1,]",
                           "[,1]",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "[01]",
                           "[-]",
                           "[-0]",
                           "[1.]",
                           "[1.5]",
                           "[.5]",
                           "[1e]",
                           "[1e5]",
                           "[1e+]",
                           "[1E-07]",
                           "[+1]",
                           "[true,false,null]",
                           "[tru]",
                           "[nulll]",
                           "[\"\\u12g4\"]",
                           "[\"\\u1234\"]",
                           "[\"\\x\"]",
                           "[\"\\\\\\\"\\/\"]",
                           "[\"a\nb\"]",
                           "[\"",
                           "[",
                           "{\"a\":[}]",
                           "[1 2]",
                           "[\"a\" \"b\"]",
                           "{\"a\" 1}",
                           "{\"a\":1 \"b\":2}",
                           "[[[[]]]",
                           "[]]",
                           "[1]x"}) {
    JsonScanner scanner;
    bool ended = false;
    bool invalid = false;
    for (const char* at = text; *at != '\0'; ++at) {
      const JsonScanner::Place place = scanner.Feed(*at);
      invalid = invalid || (place == JsonScanner::Place::kInvalid && !(ended && *at == ' '));
      ended = ended || place == JsonScanner::Place::kEnd;
    }
    EXPECT_EQ(ended && !invalid, ParseJson(text).has_value()) << text;
  }
}

TEST(JsonScanner, BoundsTheDepthAsTheParserDoes) {
  for (const int depth : {100, 128, 129, 1000}) {
    const std::string text(static_cast<size_t>(depth), '[');
    JsonScanner scanner;
    JsonScanner::Place place = JsonScanner::Place::kInside;
    for (const char byte : text) {
      place = scanner.Feed(byte);
    }
    const std::string whole = text + std::string(text.size(), ']');
    EXPECT_EQ(place != JsonScanner::Place::kInvalid, ParseJson(whole).has_value()) << depth;
  }
}

}  // namespace
}  // namespace fak::text

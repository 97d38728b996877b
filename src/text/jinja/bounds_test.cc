// No template runs forever, eats the memory or overflows the stack: each of these ends in an error
// that names the bound.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/limits.h"
#include "text/chat_template.h"
#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace fak::text {
namespace {

std::string Repeat(std::string_view text, size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

Result<RenderedPrompt> ParseAndRender(std::string_view source) {
  TRY_ASSIGN(const ChatTemplate parsed, ChatTemplate::Parse(source));
  ChatInput input;
  input.messages = Json(Json::Array{});
  return parsed.Render(input);
}

// Renders in few steps, so that what takes all of them ends soon.
void ExpectTooManySteps(std::string_view source) {
  constexpr int kSteps = 400'000;
  const Result<std::shared_ptr<const jinja::Template>> parsed = jinja::ParseTemplate(source);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().detail;
  jinja::Evaluator evaluator(**parsed, {}, kSteps);
  const Result<jinja::Text> text = evaluator.Run();
  ASSERT_FALSE(text.has_value()) << source.substr(0, 100);
  EXPECT_EQ(text.error().code, Code::kPayloadTooLarge) << text.error().detail;
  EXPECT_THAT(text.error().detail, testing::HasSubstr("kTemplateStepsMax"))
      << source.substr(0, 100);
}

void ExpectBound(std::string_view source, std::string_view bound) {
  const Result<RenderedPrompt> prompt = ParseAndRender(source);
  ASSERT_FALSE(prompt.has_value()) << source.substr(0, 100);
  EXPECT_EQ(prompt.error().code, Code::kPayloadTooLarge) << prompt.error().detail;
  EXPECT_THAT(prompt.error().detail, testing::HasSubstr(std::string(bound)))
      << source.substr(0, 100);
}

TEST(TemplateBounds, RefuseDeepSources) {
  constexpr size_t kDeep = 20'000;
  for (const std::string& source : {
           "{{ " + Repeat("(", kDeep) + "1" + Repeat(")", kDeep) + " }}",
           "{{ " + Repeat("[", kDeep) + Repeat("]", kDeep) + " }}",
           "{{ " + Repeat("{1:", kDeep) + "1" + Repeat("}", kDeep) + " }}",
           "{{ " + Repeat("not ", kDeep) + "1 }}",
           "{{ " + Repeat("-", kDeep) + "1 }}",
           "{{ 1" + Repeat(" if 1 else 1", kDeep) + " }}",
           "{{ x" + Repeat("[x", kDeep) + Repeat("]", kDeep) + " }}",
           "{{ x" + Repeat(".x", kDeep) + " }}",
           "{{ x" + Repeat("()", kDeep) + " }}",
           "{{ x" + Repeat("|trim", kDeep) + " }}",
           "{{ x" + Repeat(" is in(x", kDeep) + Repeat(")", kDeep) + " }}",
           "{{ f" + Repeat("(f", kDeep) + Repeat(")", kDeep) + " }}",
           Repeat("{% if 1 %}", kDeep) + Repeat("{% endif %}", kDeep),
           Repeat("{% for x in y %}", kDeep),
           Repeat("{% set x %}", kDeep),
           "{% set " + Repeat("(", kDeep) + "x" + Repeat(")", kDeep) + " = 1 %}",
           Repeat("{% macro m() %}", kDeep),
       }) {
    ExpectBound(source, "kTemplateDepthMax");
  }
}

TEST(TemplateBounds, AllowLongFlatSources) {
  constexpr size_t kLong = 20'000;
  for (const std::string& source : {
           "{{ 1" + Repeat("+1", kLong) + " }}",
           "{{ 'a'" + Repeat("~'a'", kLong) + " }}",
           "{{ 0" + Repeat(" or 0", kLong) + " }}",
           "{{ 1" + Repeat(" and 1", kLong) + " }}",
           "{{ 1" + Repeat(" < 2", 1) + Repeat(" != 1 == 1", kLong) + " }}",
           "{% if 0 %}" + Repeat("{% elif 0 %}", kLong) + "{% endif %}",
           "{{ [" + Repeat("1,", kLong) + "] | length }}",
           Repeat("{# c #}{{ 1 }}\n", kLong),
           Repeat("{% raw %}{{{% endraw %}", kLong),
           Repeat("{ ", kLong),
       }) {
    const Result<RenderedPrompt> prompt = ParseAndRender(source);
    EXPECT_TRUE(prompt.has_value()) << prompt.error().detail << source.substr(0, 60);
  }
}

TEST(TemplateBounds, RefuseLongSources) {
  ExpectBound(std::string(limits::kTemplateBytesMax + 1, 'x'), "kTemplateBytesMax");
}

TEST(TemplateBounds, CountStepsUpToTheLimit) {
  ExpectBound("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
              "kTemplateStepsMax");
}

TEST(TemplateBounds, EndLoopsAndRecursions) {
  const char* kLoop = "{% for a in range(99999) %}{% for b in range(99999) %}";
  const char* kEnds = "{% endfor %}{% endfor %}";
  ExpectTooManySteps(std::string(kLoop) + kEnds);
  ExpectTooManySteps(std::string("{% set l = [] %}") + kLoop + "{% set _ = l.append(l) %}" + kEnds);
  ExpectBound("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "kTemplateEvalDepthMax");
  ExpectBound("{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(1) }}", "DepthMax");
  ExpectBound("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "kTemplateEvalDepthMax");
  ExpectBound(
      "{% macro m() %}{% call m() %}{{ caller }}{% endcall %}{{ caller() }}{% endmacro %}"
      "{% call m() %}{% endcall %}",
      "kTemplateEvalDepthMax");
  // A key that holds one tuple 2^60 times.
  ExpectTooManySteps(
      "{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}"
      "{% endfor %}{{ {ns.t: 1} }}");
  // A list that grows while it is walked.
  ExpectTooManySteps("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}");
  ExpectTooManySteps("{% set ns = namespace(s='" + std::string(100'000, 'a') + "') %}" + kLoop +
                     "{% set x = ns.s == ns.s ~ 'b' or 'b' in ns.s or ns.s | upper %}" + kEnds);
}

TEST(TemplateBounds, RefuseHugeTexts) {
  const std::string kDouble = "{% set ns = namespace(s='ab') %}{% for i in range(99) %}";
  for (const std::string& body : {
           std::string("{% set ns.s = ns.s + ns.s %}"),
           std::string("{% set ns.s = ns.s ~ ns.s %}"),
           std::string("{% set ns.s = ns.s * 2 %}"),
           std::string("{% set ns.s = [ns.s, ns.s] | join %}"),
           std::string("{% set ns.s = '%s%s' % (ns.s, ns.s) %}"),
           std::string("{% set ns.s = '{0}{0}'.format(ns.s) %}"),
           std::string("{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}"),
           std::string("{% set ns.s = ns.s.join(['x', 'y', 'z']) %}"),
       }) {
    ExpectBound(kDouble + body + "{% endfor %}", "kTemplateOutputBytesMax");
  }
  ExpectBound(kDouble + "{% set ns.s = [ns.s, ns.s] | tojson %}{% endfor %}", "kTemplateStepsMax");
  for (const char* expression : {
           "'a' * 99999999999",
           "('a' * 1000) | replace('a', 'b' * 100000)",
           "99999999999 * 'ab'",
           "'a'.center(99999999999)",
           "'a'.ljust(99999999999)",
           "'a'.zfill(99999999999)",
           "'a' | center(99999999999)",
           "'a\\nb' | indent(99999999999)",
           "[1] | tojson(indent=99999999999)",
       }) {
    ExpectBound(std::string("{{ ") + expression + " }}", "kTemplateOutputBytesMax");
  }
  for (const char* expression : {
           "'%9999999999d' % 1",
           "'%*d' % (99999999999, 1)",
           "'{:9999999999}'.format(1)",
           "'%.9999999999f' % 1.0",
           "'{:.5000f}'.format(1.0)",
           "strftime_now('%Y' * 1000)",
       }) {
    const Result<RenderedPrompt> prompt = ParseAndRender(std::string("{{ ") + expression + " }}");
    EXPECT_FALSE(prompt.has_value()) << expression;
  }
}

TEST(TemplateBounds, RefuseHugeLists) {
  ExpectBound("{{ ([1] * 99999999999) | length }}", "Max");
  ExpectTooManySteps("{{ [1] | batch(99999999999, 'x') | list | length }}");
  ExpectTooManySteps("{{ [1] | slice(99999999999) | list | length }}");
  ExpectTooManySteps(
      "{% set ns = namespace(l=[1, 2]) %}{% for i in range(99) %}"
      "{% set ns.l = ns.l + ns.l %}{% endfor %}");
}

TEST(TemplateBounds, RefuseDeepValues) {
  const std::string kLoop = "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}";
  for (const char* body :
       {"{% set ns.l = [ns.l] %}", "{% set ns.l = {'a': ns.l} %}",
        "{% set ns.l = namespace(l=ns.l) %}", "{% set ns.l = cycler(ns.l) %}",
        "{% set ns.l = joiner(ns.l) %}", "{% set ns.l = (ns.l, 1) %}",
        "{% set ns.l = [ns.l].append %}", "{% set ns.l = [ns.l] | batch(1) | list %}"}) {
    ExpectBound(kLoop + body + "{% endfor %}", "kTemplateValueDepthMax");
  }
  ExpectBound("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "kTemplateEvalDepthMax");
  ExpectBound("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "kTemplateEvalDepthMax");
  ExpectBound(
      "{% set l = [] %}{% set k = [] %}{% set _ = l.append(k) %}{% set _ = k.append(l) %}"
      "{{ l == k }}",
      "kTemplateEvalDepthMax");
}

// Chains that are longer than any recursion may be, and cycles: all must come apart at the end.
TEST(TemplateBounds, TakeLongChainsAndCyclesApart) {
  const std::string kSetUp = "{% set ns = namespace(m=none) %}";
  for (const char* body :
       {"{% set a = [] %}{% if ns.m is not none %}{% set _ = ns.m.append(a) %}{% endif %}"
        "{% set ns.m = a %}",
        "{% for x in [1] recursive %}{% set prev = ns.m %}{% set ns.m = loop %}{% endfor %}",
        "{% for x in [1] %}{% set _ = loop.changed(loop) %}{% endfor %}",
        "{% macro f() %}{% endmacro %}{% set ns.m = f %}",
        "{% set d = {} %}{% set _ = d.update({'d': d}) %}",
        "{% set s = namespace() %}{% set s.s = s %}"}) {
    const std::string source = kSetUp + "{% for i in range(20000) %}" + body + "{% endfor %}done";
    const Result<RenderedPrompt> prompt = ParseAndRender(source);
    ASSERT_TRUE(prompt.has_value()) << prompt.error().detail << body;
    EXPECT_EQ(prompt->text, "done");
  }
  // Each call defines the macro that the next one calls: scopes hang on each other.
  ExpectBound(kSetUp +
                  "{% macro first() %}{% macro next() %}{% set f = ns.m %}{% macro again() %}"
                  "{{ next() }}{% endmacro %}{% set ns.m = again %}{{ ns.m() }}{% endmacro %}"
                  "{{ next() }}{% endmacro %}{{ first() }}",
              "DepthMax");
}

TEST(TemplateBounds, ManyVariablesCostSteps) {
  std::string source;
  for (int i = 0; i < 20'000; ++i) {
    source += "{% set v" + std::to_string(i) + "=1 %}";
  }
  source +=
      "{% for a in range(99999) %}{% for b in range(99999) %}{{ v0 }}{% endfor %}"
      "{% endfor %}";
  ExpectTooManySteps(source);
}

TEST(TemplateBounds, SearchesAreLinear) {
  const char* kSource =
      "{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 ~ 'b' %}"
      "{{ b in a }}{{ a.find(b) }}{{ a.rfind(b) }}{{ a.count(b) }}{{ a.replace(b, '') == a }}"
      "{{ a.split(b) | length }}{{ a.rsplit(b) | length }}{{ a.startswith(b) }}";
  const Result<RenderedPrompt> prompt = ParseAndRender(kSource);
  ASSERT_TRUE(prompt.has_value()) << prompt.error().detail;
  EXPECT_EQ(prompt->text, "False-1-10True11False");
}

// What is done with a text: `{text}` stands for it.
struct Use {
  std::string name;
  std::string expression;
  // Takes constant time, or as long as its short argument.
  bool is_constant = false;
  // Walks over the characters, whose price is higher.
  bool is_walk = false;
};

bool IsAmong(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The arguments that a builtin can't do without.
std::string ArgumentsOf(const jinja::Builtin& builtin) {
  static const std::map<std::string_view, std::string> kOwn = {
      {"format", "('x')"},     {"map", "('upper')"},     {"select", "('lower')"},
      {"reject", "('lower')"}, {"indent", "(blank=1)"},  {"selectattr", "('x')"},
      {"rejectattr", "('x')"}, {"join", "([s, s])"},     {"attr", "('x')"},
      {"batch", "(2)"},        {"slice", "(2)"},         {"center", "(9)"},
      {"ljust", "(9)"},        {"rjust", "(9)"},         {"zfill", "(9)"},
      {"divisibleby", "(3)"},  {"replace", "('b', 'c')"}};
  if (const auto own = kOwn.find(builtin.name); own != kOwn.end()) {
    return own->second;
  }
  return builtin.parameters.empty() || builtin.parameters.find('?') < builtin.parameters.find(' ')
             ? ""
             : "(t)";
}

std::vector<Use> UsesByBuiltins() {
  std::vector<Use> uses;
  for (const jinja::Builtin& filter : jinja::AllFilters()) {
    const bool is_constant = IsAmong({"attr", "d", "default", "string"}, filter.name);
    std::string arguments = filter.name == "join" ? "" : ArgumentsOf(filter);
    uses.push_back({"filter " + std::string(filter.name),
                    "s | " + std::string(filter.name) + arguments, is_constant,
                    filter.charge == jinja::Charge::kDecode});
  }
  for (const jinja::Builtin& test : jinja::AllTests()) {
    const bool is_constant = IsAmong(
        {"defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number",
         "string", "mapping", "sequence", "iterable", "callable", "escaped", "filter", "test"},
        test.name);
    const bool is_symbol = test.name.find_first_of("<>=!") != std::string_view::npos;
    uses.push_back({"test " + std::string(test.name),
                    is_symbol ? "s " + std::string(test.name) + " t"
                              : "s is " + std::string(test.name) + ArgumentsOf(test),
                    is_constant, test.charge == jinja::Charge::kDecode});
  }
  for (const jinja::Builtin& method : jinja::AllTextMethods()) {
    uses.push_back({"method " + std::string(method.name),
                    "s." + std::string(method.name) +
                        (ArgumentsOf(method).empty() ? "()" : ArgumentsOf(method)),
                    false, method.charge == jinja::Charge::kDecode});
  }
  return uses;
}

std::vector<Use> AllUses() {
  std::vector<Use> uses = UsesByBuiltins();
  for (const char* expression : {"s + t",
                                 "s ~ t",
                                 "s * 2",
                                 "s % 1",
                                 "'%s' % s",
                                 "'%r' % s",
                                 "'%.1s' % s",
                                 "s[1]",
                                 "s[1:]",
                                 "s[::2]",
                                 "s < t",
                                 "t in s",
                                 "[s] == [t]",
                                 "{s: 1}",
                                 "{}[s]",
                                 "{t: 1}[s]",
                                 "s in {t: 1}",
                                 "{t: 1}.get(s)",
                                 "{t: 1}.setdefault(s)",
                                 "{}.pop(s, 1)",
                                 "dict([(s, 1)])",
                                 "[s] | string",
                                 "[s] | tojson",
                                 "[s, t] | sort",
                                 "[s, t] | unique | list",
                                 "[s, t] | max",
                                 "{s: 1, t: 1} | dictsort",
                                 "[t].count(s)",
                                 "[t].index(s)",
                                 "'{}'.format(s)",
                                 "'{!r}'.format(s)",
                                 "'{:.1}'.format(s)",
                                 "'a'.center(9, s)",
                                 "'a'.strip(s)",
                                 "'a' | trim(s)",
                                 "'a'.split(s)",
                                 "'a'.find(s)",
                                 "'a'.count(s)",
                                 "strftime_now(s)",
                                 "[1] | map(attribute=s) | list",
                                 "[1] | sort(attribute=s)",
                                 "'' | replace('', s)",
                                 "s.startswith(t)",
                                 "s.removesuffix(t)",
                                 "(s | escape) + t",
                                 "namespace(a=1)[s]"}) {
    uses.push_back({expression, expression});
  }
  return uses;
}

jinja::Value TextOf(std::string_view unit, size_t bytes) {
  return jinja::Value::String(Repeat(unit, bytes / unit.size()));
}

// Every filter, test and method, and whatever else looks at a text, is paid for by its bytes.
TEST(TemplateBounds, EveryUseOfATextIsPaidFor) {
  constexpr size_t kBytes = 1'000'000;
  for (const Use& use : AllUses()) {
    const auto parsed = jinja::ParseTemplate("{% set x = " + use.expression + " %}");
    ASSERT_TRUE(parsed.has_value()) << use.expression << parsed.error().detail;
    const auto too_few = static_cast<int>(use.is_walk ? kBytes / 5 : kBytes / 300);
    jinja::Evaluator evaluator(**parsed, {}, too_few);
    evaluator.Define("s", TextOf("a", kBytes));
    evaluator.Define("t", TextOf("a", kBytes));
    const Result<jinja::Text> text = evaluator.Run();
    const bool is_paid =
        !text && text.error().detail.find("kTemplateStepsMax") != std::string::npos;
    EXPECT_NE(is_paid, use.is_constant)
        << use.name << ": " << use.expression << ": " << (text ? "" : text.error().detail);
  }
}

}  // namespace
}  // namespace fak::text

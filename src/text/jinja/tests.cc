#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/characters.h"

namespace fak::text::jinja {

namespace {

using Args = BoundArguments;

template <bool (*kHolds)(const Value&)>
Result<Value> Test(Evaluator&, const Value& self, const Args&) {
  return Value(kHolds(self));
}

template <Operator kOperator>
Result<Value> TestCompare(Evaluator& evaluator, const Value& self, const Args& args) {
  return Compare(evaluator.budget(), kOperator, self, *args[0]).map([](bool holds) {
    return Value(holds);
  });
}

bool IsDefined(const Value& v) {
  return !v.is_undefined();
}
bool IsUndefined(const Value& v) {
  return v.is_undefined();
}
bool IsNone(const Value& v) {
  return v.is_none();
}
bool IsBoolean(const Value& v) {
  return v.is_bool();
}
bool IsTrue(const Value& v) {
  return v.is_bool() && v.boolean();
}
bool IsFalse(const Value& v) {
  return v.is_bool() && !v.boolean();
}
bool IsInteger(const Value& v) {
  return v.is_int() || v.is_big_int();
}
bool IsFloat(const Value& v) {
  return v.is_float();
}
bool IsNumber(const Value& v) {
  return v.is_number();
}
bool IsString(const Value& v) {
  return v.is_string();
}
bool IsMapping(const Value& v) {
  return v.is_dict();
}
bool IsCallable(const Value& v) {
  return v.is_callable() || v.is_loop();
}
bool IsEscaped(const Value& v) {
  return v.is_string() && v.text().markup;
}
bool IsIterable(const Value& v) {
  return v.is_undefined() || v.is_string() || v.is_list() || v.is_dict() || v.is_loop();
}
bool IsSequence(const Value& v) {
  return v.is_string() || v.is_dict() || v.is_undefined() ||
         (v.is_list() && v.list()->form <= List::Form::kRange);
}

// Cased characters, all of the wanted case, and at least one.
bool AllCased(const Text& text, bool (*wanted)(char32_t), bool (*unwanted)(char32_t)) {
  bool any = false;
  char32_t c = 0;
  for (size_t i = 0; i < text.bytes.size();) {
    i += static_cast<size_t>(DecodeUtf8(std::string_view(text.bytes).substr(i), &c));
    if (unwanted(c) || IsTitle(c)) {
      return false;
    }
    any |= wanted(c);
  }
  return any;
}

Result<Value> TestLower(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  return Value(AllCased(*text, IsLower, IsUpper));
}

Result<Value> TestUpper(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  return Value(AllCased(*text, IsUpper, IsLower));
}

Result<Value> TestRemainder(Evaluator& evaluator, const Value& self, const Value& by,
                            int64_t wanted) {
  TRY_ASSIGN(const Value remainder, Arithmetic(evaluator.budget(), Operator::kModulo, self, by));
  return Equal(evaluator.budget(), remainder, Value(wanted)).map([](bool equal) {
    return Value(equal);
  });
}

Result<Value> TestOdd(Evaluator& evaluator, const Value& self, const Args&) {
  return TestRemainder(evaluator, self, Value(int64_t{2}), 1);
}

Result<Value> TestEven(Evaluator& evaluator, const Value& self, const Args&) {
  return TestRemainder(evaluator, self, Value(int64_t{2}), 0);
}

Result<Value> TestDivisibleBy(Evaluator& evaluator, const Value& self, const Args& args) {
  return TestRemainder(evaluator, self, *args[0], 0);
}

Result<Value> TestSameAs(Evaluator&, const Value& self, const Args& args) {
  return Value(self.IsSame(*args[0]));
}

Result<Value> TestFilterExists(Evaluator&, const Value& self, const Args&) {
  return Value(self.is_string() && FindFilter(self.text().bytes) != nullptr);
}

Result<Value> TestTestExists(Evaluator&, const Value& self, const Args&) {
  return Value(self.is_string() && FindTest(self.text().bytes) != nullptr);
}

constexpr Builtin kTests[] = {
    {"defined", "", Test<IsDefined>, Charge::kItself},
    {"undefined", "", Test<IsUndefined>, Charge::kItself},
    {"none", "", Test<IsNone>, Charge::kItself},
    {"boolean", "", Test<IsBoolean>, Charge::kItself},
    {"true", "", Test<IsTrue>, Charge::kItself},
    {"false", "", Test<IsFalse>, Charge::kItself},
    {"integer", "", Test<IsInteger>, Charge::kItself},
    {"float", "", Test<IsFloat>, Charge::kItself},
    {"number", "", Test<IsNumber>, Charge::kItself},
    {"string", "", Test<IsString>, Charge::kItself},
    {"mapping", "", Test<IsMapping>, Charge::kItself},
    {"sequence", "", Test<IsSequence>, Charge::kItself},
    {"iterable", "", Test<IsIterable>, Charge::kItself},
    {"callable", "", Test<IsCallable>, Charge::kItself},
    {"escaped", "", Test<IsEscaped>, Charge::kItself},
    {"lower", "", TestLower},
    {"upper", "", TestUpper},
    {"odd", "", TestOdd},
    {"even", "", TestEven},
    {"divisibleby", "num", TestDivisibleBy},
    {"sameas", "other", TestSameAs, Charge::kScan},
    {"filter", "", TestFilterExists, Charge::kItself},
    {"test", "", TestTestExists, Charge::kItself},
    {"in", "seq", TestCompare<Operator::kIn>, Charge::kItself},
    {"eq", "other", TestCompare<Operator::kEqual>, Charge::kItself},
    {"equalto", "other", TestCompare<Operator::kEqual>, Charge::kItself},
    {"==", "other", TestCompare<Operator::kEqual>, Charge::kItself},
    {"ne", "other", TestCompare<Operator::kNotEqual>, Charge::kItself},
    {"!=", "other", TestCompare<Operator::kNotEqual>, Charge::kItself},
    {"gt", "other", TestCompare<Operator::kGreater>, Charge::kItself},
    {"greaterthan", "other", TestCompare<Operator::kGreater>, Charge::kItself},
    {">", "other", TestCompare<Operator::kGreater>, Charge::kItself},
    {"ge", "other", TestCompare<Operator::kGreaterEqual>, Charge::kItself},
    {">=", "other", TestCompare<Operator::kGreaterEqual>, Charge::kItself},
    {"lt", "other", TestCompare<Operator::kLess>, Charge::kItself},
    {"lessthan", "other", TestCompare<Operator::kLess>, Charge::kItself},
    {"<", "other", TestCompare<Operator::kLess>, Charge::kItself},
    {"le", "other", TestCompare<Operator::kLessEqual>, Charge::kItself},
    {"<=", "other", TestCompare<Operator::kLessEqual>, Charge::kItself},
};

}  // namespace

std::vector<Builtin> AllTests() {
  return {std::begin(kTests), std::end(kTests)};
}

const Builtin* FindTest(std::string_view name) {
  return FindIn(kTests, name);
}

}  // namespace fak::text::jinja

#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/printf.h"

namespace fak::text::jinja {

namespace {

std::string_view Symbol(Operator op) {
  switch (op) {
    case Operator::kAdd: return "+";
    case Operator::kSubtract: return "-";
    case Operator::kMultiply: return "*";
    case Operator::kDivide: return "/";
    case Operator::kFloorDivide: return "//";
    case Operator::kModulo: return "%";
    default: return "** or pow()";
  }
}

tl::unexpected<Error> RaiseTypes(Operator op, const Value& a, const Value& b) {
  const std::string left(TypeName(a));
  const std::string right(TypeName(b));
  if (op == Operator::kAdd && (a.is_string() || a.is_list())) {
    const std::string_view kind = a.is_string() ? "str" : TypeName(a);
    return Raise("can only concatenate " + std::string(kind) + " (not \"" + right + "\") to " +
                 std::string(kind));
  }
  return Raise("unsupported operand type(s) for " + std::string(Symbol(op)) + ": '" + left +
               "' and '" + right + "'");
}

tl::unexpected<Error> RaiseRange() {
  return Fail(Code::kUnsupported, "integers beyond 64 bits are not supported");
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) {
      return Raise("0.0 cannot be raised to a negative power");
    }
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return RaiseRange();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return RaiseRange();
    }
  }
  return Value(result);
}

Result<Value> Integers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd: overflow = __builtin_add_overflow(a, b, &result); break;
    case Operator::kSubtract: overflow = __builtin_sub_overflow(a, b, &result); break;
    case Operator::kMultiply: overflow = __builtin_mul_overflow(a, b, &result); break;
    case Operator::kPower: return IntegerPower(a, b);
    default:
      if (b == 0) {
        return Raise(op == Operator::kDivide ? "division by zero"
                                             : "integer division or modulo by zero");
      }
      if (op == Operator::kDivide) {
        return Value(static_cast<double>(a) / static_cast<double>(b));
      }
      if (b == -1) {  // the one quotient that overflows
        overflow = op == Operator::kFloorDivide && __builtin_sub_overflow(int64_t{0}, a, &result);
      } else {
        const int64_t quotient = FloorDivide(a, b);
        result = op == Operator::kFloorDivide ? quotient : a - quotient * b;
      }
  }
  if (overflow) {
    return RaiseRange();
  }
  return Value(result);
}

Result<Value> Floats(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd: return Value(a + b);
    case Operator::kSubtract: return Value(a - b);
    case Operator::kMultiply: return Value(a * b);
    case Operator::kPower: {
      if (a < 0 && b != std::floor(b)) {
        return Fail(Code::kUnsupported, "complex numbers are not supported");
      }
      if (a == 0 && b < 0) {
        return Raise("0.0 cannot be raised to a negative power");
      }
      return Value(std::pow(a, b));
    }
    default: break;
  }
  if (b == 0) {
    return Raise(op == Operator::kDivide        ? "float division by zero"
                 : op == Operator::kFloorDivide ? "float floor division by zero"
                                                : "float modulo");
  }
  if (op == Operator::kDivide) {
    return Value(a / b);
  }
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
  } else if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  }
  if (op == Operator::kModulo) {
    return Value(remainder);
  }
  return Value(std::round((a - remainder) / b));
}

Result<Value> AddTexts(Budget& budget, const Value& a, const Value& b) {
  const bool is_markup = a.text().markup || b.text().markup;
  Value left = a;
  Value right = b;
  if (is_markup) {
    TRY_ASSIGN(left, EscapeHtml(budget, a));
    TRY_ASSIGN(right, EscapeHtml(budget, b));
  }
  TextBuilder builder;
  builder.Append(left.text());
  builder.Append(right.text());
  Text text = builder.Take();
  text.markup = is_markup;
  return MakeText(budget, std::move(text));
}

Result<Value> AddLists(Budget& budget, const Value& a, const Value& b) {
  TRY(budget.Steps(a.list()->items.size() + b.list()->items.size()));
  std::vector<Value> items = a.list()->items;
  items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
  return MakeList(std::move(items), a.list()->form);
}

// A text or list, `count` times.
Result<Value> Repeat(Budget& budget, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (value.is_string()) {
    const Text& text = value.text();
    TRY(budget.WriteRepeated(text.bytes.size(), times));
    TextBuilder builder;
    for (size_t i = 0; i < times && !text.bytes.empty(); ++i) {
      builder.Append(text);
    }
    Text repeated = builder.Take();
    repeated.markup = text.markup;
    return Value(std::move(repeated));
  }
  const std::vector<Value>& once = value.list()->items;
  TRY(budget.WriteRepeated(once.size(), times));
  TRY(budget.Steps(once.size() * times));
  std::vector<Value> items;
  for (size_t i = 0; i < times && !once.empty(); ++i) {
    items.insert(items.end(), once.begin(), once.end());
  }
  return MakeList(std::move(items), value.list()->form);
}

bool IsSequence(const Value& value) {
  return value.is_string() || (value.is_list() && (value.list()->form == List::Form::kList ||
                                                   value.list()->form == List::Form::kTuple));
}

}  // namespace

Result<Value> Arithmetic(Budget& budget, Operator op, const Value& a, const Value& b) {
  if (a.is_undefined() || b.is_undefined()) {
    return RaiseUndefined(a.is_undefined() ? a : b);
  }
  int64_t x = 0;
  int64_t y = 0;
  if (a.AsInt(&x) && b.AsInt(&y)) {
    return Integers(op, x, y);
  }
  if (op == Operator::kAdd && a.is_string() && b.is_string()) {
    return AddTexts(budget, a, b);
  }
  if (op == Operator::kModulo && a.is_string()) {
    return FormatPercent(budget, a.text(), b);
  }
  if (a.is_number() && b.is_number()) {
    if (a.is_big_int() || b.is_big_int()) {
      return RaiseRange();
    }
    double p = 0;
    double q = 0;
    a.AsDouble(&p);
    b.AsDouble(&q);
    return Floats(op, p, q);
  }
  if (op == Operator::kAdd && IsSequence(a) && a.is_list() && b.is_list() &&
      a.list()->form == b.list()->form) {
    return AddLists(budget, a, b);
  }
  if (op == Operator::kMultiply && IsSequence(a) && b.AsInt(&y)) {
    return Repeat(budget, a, y);
  }
  if (op == Operator::kMultiply && IsSequence(b) && a.AsInt(&x)) {
    return Repeat(budget, b, x);
  }
  return RaiseTypes(op, a, b);
}

Result<Value> Negate(const Value& value) {
  int64_t integer = 0;
  if (value.AsInt(&integer)) {
    return Integers(Operator::kSubtract, 0, integer);
  }
  if (value.is_float()) {
    return Value(-value.real());
  }
  if (value.is_undefined()) {
    return RaiseUndefined(value);
  }
  return Raise("bad operand type for unary -: '" + std::string(TypeName(value)) + "'");
}

}  // namespace fak::text::jinja

#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/operations.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

Result<Value> Evaluator::Eval(const Expr& expr) {
  const Budget::Level level(budget_);
  Result<Value> value = [&]() -> Result<Value> {
    TRY(level.Check());
    TRY(budget_.Steps());
    return EvalKind(expr);
  }();
  if (!value) {
    return Fail(Located(std::move(value).error(), expr.line));
  }
  return value;
}

Result<Value> Evaluator::EvalKind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.constant;
    case ExprKind::kName: return EvalName(expr);
    case ExprKind::kList:
    case ExprKind::kTuple: return EvalList(expr);
    case ExprKind::kDict: return EvalDict(expr);
    case ExprKind::kAttribute: {
      TRY_ASSIGN(const Value object, Eval(*expr.children[0]));
      return GetAttribute(object, expr.constant);
    }
    case ExprKind::kItem: return EvalItem(expr);
    case ExprKind::kSlice: return EvalSlice(expr);
    case ExprKind::kCall: return EvalCall(expr, nullptr);
    case ExprKind::kFilter: return EvalFilter(expr);
    case ExprKind::kTest: return EvalTest(expr);
    case ExprKind::kNot: {
      TRY_ASSIGN(const Value value, Eval(*expr.children[0]));
      return Value(!Truthy(value));
    }
    case ExprKind::kNegate: {
      TRY_ASSIGN(const Value value, Eval(*expr.children[0]));
      return Negate(value);
    }
    case ExprKind::kPlus: {
      TRY_ASSIGN(const Value value, Eval(*expr.children[0]));
      return Arithmetic(budget_, Operator::kAdd, Value(int64_t{0}), value);
    }
    case ExprKind::kAnd:
    case ExprKind::kOr: return EvalLogic(expr);
    case ExprKind::kConcat: return EvalConcat(expr);
    case ExprKind::kArithmetic: return EvalArithmetic(expr);
    case ExprKind::kCompare: return EvalCompare(expr);
    case ExprKind::kCondition: return EvalCondition(expr);
  }
  return Value();
}

Result<Value> Evaluator::EvalName(const Expr& expr) {
  size_t looked_at = 0;
  if (const Value* found = Lookup(expr.symbol, &looked_at)) {
    TRY(budget_.Steps(looked_at / kVariablesAStep));
    return *found;
  }
  if (const Builtin* function = FindFunction(expr.name)) {
    auto callable = std::make_shared<Callable>();
    callable->builtin = function;
    return Value(std::move(callable));
  }
  TRY(budget_.Scan(expr.name.size()));
  return Value::MakeUndefined("'" + expr.name + "' is undefined");
}

Result<Value> Evaluator::EvalList(const Expr& expr) {
  std::vector<Value> items;
  for (const Expr* child : expr.children) {
    TRY_ASSIGN(Value item, Eval(*child));
    items.push_back(std::move(item));
  }
  return MakeList(std::move(items),
                  expr.kind == ExprKind::kTuple ? List::Form::kTuple : List::Form::kList);
}

Result<Value> Evaluator::EvalDict(const Expr& expr) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    TRY_ASSIGN(Value key, Eval(*expr.children[i]));
    TRY_ASSIGN(Value value, Eval(*expr.children[i + 1]));
    TRY(CheckKey(budget_, key));
    dict->Set(std::move(key), std::move(value));
  }
  return Value(std::move(dict));
}

Result<Value> Evaluator::EvalItem(const Expr& expr) {
  TRY_ASSIGN(const Value object, Eval(*expr.children[0]));
  TRY_ASSIGN(const Value key, Eval(*expr.children[1]));
  return GetItem(object, key);
}

Result<Value> Evaluator::EvalSlice(const Expr& expr) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    parts[i] = Value::MakeNone();
    if (expr.children[i] != nullptr) {
      TRY_ASSIGN(parts[i], Eval(*expr.children[i]));
    }
  }
  return Slice(budget_, parts[0], parts[1], parts[2], parts[3]);
}

// `and` and `or` give the value that decided.
Result<Value> Evaluator::EvalLogic(const Expr& expr) {
  const bool stops_at = expr.kind == ExprKind::kOr;
  Value value;
  for (const Expr* child : expr.children) {
    TRY_ASSIGN(value, Eval(*child));
    if (Truthy(value) == stops_at) {
      break;
    }
  }
  return value;
}

// Makes texts of all; the result is never markup.
Result<Value> Evaluator::EvalConcat(const Expr& expr) {
  std::vector<Value> parts;
  for (const Expr* child : expr.children) {
    TRY_ASSIGN(Value part, Eval(*child));
    parts.push_back(std::move(part));
  }
  TextBuilder builder;
  for (const Value& part : parts) {
    TRY_ASSIGN(const TextRef text, Str(budget_, part));
    TRY(budget_.CheckSize(builder.size() + text->bytes.size()));
    builder.Append(*text);
  }
  return MakeText(budget_, builder.Take());
}

// Left to right. A run of texts that are added is built in one go.
Result<Value> Evaluator::EvalArithmetic(const Expr& expr) {
  const auto is_plain = [](const Value& v) { return v.is_string() && !v.text().markup; };
  TRY_ASSIGN(Value left, Eval(*expr.children[0]));
  TextBuilder run;
  bool is_running = false;
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    TRY_ASSIGN(const Value right, Eval(*expr.children[i + 1]));
    const bool joins = expr.operators[i] == Operator::kAdd && is_plain(right);
    if (joins && (is_running || is_plain(left))) {
      if (!is_running) {
        run = TextBuilder();
        run.Append(left.text());
      }
      is_running = true;
      TRY(budget_.CheckSize(run.size() + right.text().bytes.size()));
      run.Append(right.text());
      continue;
    }
    if (is_running) {
      TRY_ASSIGN(left, MakeText(budget_, run.Take()));
      is_running = false;
    }
    TRY_ASSIGN(left, Arithmetic(budget_, expr.operators[i], left, right));
  }
  return is_running ? MakeText(budget_, run.Take()) : Result<Value>(left);
}

Result<Value> Evaluator::EvalCompare(const Expr& expr) {
  TRY_ASSIGN(Value left, Eval(*expr.children[0]));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    TRY_ASSIGN(Value right, Eval(*expr.children[i + 1]));
    TRY_ASSIGN(const bool holds, Compare(budget_, expr.operators[i], left, right));
    if (!holds) {
      return Value(false);
    }
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::EvalCondition(const Expr& expr) {
  TRY_ASSIGN(const Value condition, Eval(*expr.children[1]));
  if (Truthy(condition)) {
    return Eval(*expr.children[0]);
  }
  if (expr.children[2] != nullptr) {
    return Eval(*expr.children[2]);
  }
  return Value::MakeUndefined("the inline if-expression on line " + std::to_string(expr.line) +
                              " evaluated to false and no else section was defined");
}

Result<CallArguments> Evaluator::EvalArguments(const Arguments* args) {
  CallArguments out;
  if (args == nullptr) {
    return out;
  }
  for (const Expr* expr : args->positional) {
    TRY_ASSIGN(Value value, Eval(*expr));
    out.positional.push_back(std::move(value));
  }
  if (args->rest_positional != nullptr) {
    TRY(AddRestPositional(*args->rest_positional, &out));
  }
  for (const Arguments::Keyword& keyword : args->keywords) {
    TRY_ASSIGN(Value value, Eval(*keyword.value));
    TRY(budget_.Scan(keyword.name.size()));
    out.keywords.emplace_back(keyword.name, std::move(value));
  }
  if (args->rest_keywords != nullptr) {
    TRY(AddRestKeywords(*args->rest_keywords, &out));
  }
  return out;
}

Result<void> Evaluator::AddRestPositional(const Expr& rest, CallArguments* out) {
  TRY_ASSIGN(const Value value, Eval(rest));
  TRY_ASSIGN(const ListRef list, Iterate(budget_, value));
  TRY(budget_.Steps(list->items.size()));
  out->positional.insert(out->positional.end(), list->items.begin(), list->items.end());
  return {};
}

Result<void> Evaluator::AddRestKeywords(const Expr& rest, CallArguments* out) {
  TRY_ASSIGN(const Value value, Eval(rest));
  if (!value.is_dict()) {
    return Raise("argument after ** must be a mapping, not " + std::string(TypeName(value)));
  }
  for (const Dict::Entry& entry : value.dict()->entries()) {
    if (!entry.first.is_string()) {
      return Raise("keywords must be strings");
    }
    TRY(budget_.Steps());
    TRY(budget_.Scan(entry.first.text().bytes.size()));
    out->keywords.emplace_back(entry.first.text().bytes, entry.second);
  }
  return {};
}

Result<Value> Evaluator::EvalFilter(const Expr& expr) {
  Value input;
  if (expr.children[0] == nullptr) {
    input = *block_input_;
  } else {
    TRY_ASSIGN(input, Eval(*expr.children[0]));
  }
  TRY_ASSIGN(const CallArguments args, EvalArguments(expr.arguments));
  return expr.builtin == nullptr ? ApplyFilter(expr.name, input, args)
                                 : CallBuiltin(*expr.builtin, input, args);
}

Result<Value> Evaluator::EvalTest(const Expr& expr) {
  TRY_ASSIGN(const Value value, Eval(*expr.children[0]));
  TRY_ASSIGN(const CallArguments args, EvalArguments(expr.arguments));
  return expr.builtin == nullptr ? ApplyTest(expr.name, value, args)
                                 : CallBuiltin(*expr.builtin, value, args);
}

Result<Value> Evaluator::ApplyFilter(std::string_view name, const Value& input,
                                     const CallArguments& args) {
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr) {
    return Fail(Code::kUnsupported, "no filter named '" + std::string(name) + "'");
  }
  return CallBuiltin(*filter, input, args);
}

Result<Value> Evaluator::ApplyTest(std::string_view name, const Value& value,
                                   const CallArguments& args) {
  const Builtin* test = FindTest(name);
  if (test == nullptr) {
    return Fail(Code::kUnsupported, "no test named '" + std::string(name) + "'");
  }
  return CallBuiltin(*test, value, args);
}

}  // namespace fak::text::jinja

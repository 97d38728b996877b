#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/parser_internal.h"

namespace fak::text::jinja {

bool Parser::AtTupleEnd(std::initializer_list<std::string_view> ends) const {
  const TokenKind kind = current().kind;
  return kind == TokenKind::kPrintEnd || kind == TokenKind::kBlockEnd || AtOperator(")") ||
         AtAnyName(ends);
}

// One expression, or several with commas between them, which make a tuple.
ExprResult Parser::ParseTuple(bool with_condition, std::initializer_list<std::string_view> ends,
                              bool in_parentheses) {
  const int line = current().line;
  std::vector<const Expr*> items;
  bool is_tuple = false;
  while (!AtTupleEnd(ends)) {
    TRY_ASSIGN(const Expr* item, ParseExpression(with_condition));
    items.push_back(item);
    if (!SkipOperator(",")) {
      break;
    }
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) {
    return items[0];
  }
  if (!is_tuple && !in_parentheses) {
    return Unexpected("an expression");
  }
  return Finish(MakeExpr(ExprKind::kTuple, line, std::move(items)));
}

ExprResult Parser::ParseExpression(bool with_condition) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) {
    return TooDeep();
  }
  return with_condition ? ParseCondition() : ParseOr();
}

// a if b else c; the else may be left out.
ExprResult Parser::ParseCondition() {
  const size_t unknown = unknown_.size();
  TRY_ASSIGN(const Expr* expr, ParseOr());
  while (AtName("if")) {
    const int line = current().line;
    Advance();
    TRY_ASSIGN(const Expr* condition, ParseOr());
    const Expr* otherwise = nullptr;
    if (SkipName("else")) {
      TRY_ASSIGN(otherwise, ParseExpression());
    }
    unknown_.resize(unknown);
    TRY_ASSIGN(expr, Finish(MakeExpr(ExprKind::kCondition, line, {expr, condition, otherwise})));
  }
  return expr;
}

ExprResult Parser::ParseOr() {
  TRY_ASSIGN(const Expr* first, ParseAnd());
  if (!AtName("or")) {
    return first;
  }
  Expr* expr = MakeExpr(ExprKind::kOr, current().line, {first});
  while (SkipName("or")) {
    TRY_ASSIGN(const Expr* next, ParseAnd());
    expr->children.push_back(next);
  }
  return Finish(expr);
}

ExprResult Parser::ParseAnd() {
  TRY_ASSIGN(const Expr* first, ParseNot());
  if (!AtName("and")) {
    return first;
  }
  Expr* expr = MakeExpr(ExprKind::kAnd, current().line, {first});
  while (SkipName("and")) {
    TRY_ASSIGN(const Expr* next, ParseNot());
    expr->children.push_back(next);
  }
  return Finish(expr);
}

ExprResult Parser::ParseNot() {
  if (!AtName("not")) {
    return ParseCompare();
  }
  const Nesting nesting(*this);
  if (nesting.too_deep()) {
    return TooDeep();
  }
  const int line = current().line;
  Advance();
  TRY_ASSIGN(const Expr* operand, ParseNot());
  return Finish(MakeExpr(ExprKind::kNot, line, {operand}));
}

namespace {

struct OperatorName {
  std::string_view text;
  Operator op;
};
constexpr OperatorName kComparisons[] = {
    {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
    {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
constexpr OperatorName kSums[] = {{"+", Operator::kAdd}, {"-", Operator::kSubtract}};
constexpr OperatorName kProducts[] = {{"*", Operator::kMultiply},
                                      {"/", Operator::kDivide},
                                      {"//", Operator::kFloorDivide},
                                      {"%", Operator::kModulo}};

template <size_t kCount>
const OperatorName* FindOperator(const OperatorName (&table)[kCount], const Token& token) {
  if (token.kind != TokenKind::kOperator) {
    return nullptr;
  }
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const OperatorName& o) { return o.text == token.text; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

ExprResult Parser::ParseCompare() {
  TRY_ASSIGN(const Expr* first, ParseSum());
  Expr* expr = nullptr;
  while (true) {
    Operator op = Operator::kIn;
    const int line = current().line;
    if (const OperatorName* found = FindOperator(kComparisons, current())) {
      op = found->op;
    } else if (AtName("not") && peek().kind == TokenKind::kName && peek().text == "in") {
      op = Operator::kNotIn;
      Advance();
    } else if (!AtName("in")) {
      break;
    }
    Advance();
    if (expr == nullptr) {
      expr = MakeExpr(ExprKind::kCompare, line, {first});
    }
    TRY_ASSIGN(const Expr* next, ParseSum());
    expr->children.push_back(next);
    expr->operators.push_back(op);
  }
  return expr == nullptr ? ExprResult(first) : Finish(expr);
}

ExprResult Parser::ParseSum() {
  TRY_ASSIGN(const Expr* first, ParseConcat());
  Expr* expr = nullptr;
  while (const OperatorName* found = FindOperator(kSums, current())) {
    if (expr == nullptr) {
      expr = MakeExpr(ExprKind::kArithmetic, current().line, {first});
    }
    Advance();
    TRY_ASSIGN(const Expr* next, ParseConcat());
    expr->children.push_back(next);
    expr->operators.push_back(found->op);
  }
  return expr == nullptr ? ExprResult(first) : Finish(expr);
}

ExprResult Parser::ParseConcat() {
  TRY_ASSIGN(const Expr* first, ParseProduct());
  if (!AtOperator("~")) {
    return first;
  }
  Expr* expr = MakeExpr(ExprKind::kConcat, current().line, {first});
  while (SkipOperator("~")) {
    TRY_ASSIGN(const Expr* next, ParseProduct());
    expr->children.push_back(next);
  }
  return Finish(expr);
}

ExprResult Parser::ParseProduct() {
  TRY_ASSIGN(const Expr* first, ParsePower());
  Expr* expr = nullptr;
  while (const OperatorName* found = FindOperator(kProducts, current())) {
    if (expr == nullptr) {
      expr = MakeExpr(ExprKind::kArithmetic, current().line, {first});
    }
    Advance();
    TRY_ASSIGN(const Expr* next, ParsePower());
    expr->children.push_back(next);
    expr->operators.push_back(found->op);
  }
  return expr == nullptr ? ExprResult(first) : Finish(expr);
}

ExprResult Parser::ParsePower() {
  TRY_ASSIGN(const Expr* first, ParseUnary());
  Expr* expr = nullptr;
  while (AtOperator("**")) {
    if (expr == nullptr) {
      expr = MakeExpr(ExprKind::kArithmetic, current().line, {first});
    }
    Advance();
    TRY_ASSIGN(const Expr* next, ParseUnary());
    expr->children.push_back(next);
    expr->operators.push_back(Operator::kPower);
  }
  return expr == nullptr ? ExprResult(first) : Finish(expr);
}

// A sign binds tighter than a filter: -x|abs is (-x)|abs.
ExprResult Parser::ParseUnary(bool with_filter) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) {
    return TooDeep();
  }
  const int line = current().line;
  const Expr* expr = nullptr;
  if (AtOperator("-") || AtOperator("+")) {
    const ExprKind kind = AtOperator("-") ? ExprKind::kNegate : ExprKind::kPlus;
    Advance();
    TRY_ASSIGN(const Expr* operand, ParseUnary(false));
    TRY_ASSIGN(expr, Finish(MakeExpr(kind, line, {operand})));
  } else {
    TRY_ASSIGN(expr, ParsePrimary());
  }
  TRY_ASSIGN(expr, ParsePostfix(expr));
  return with_filter ? ParseFilterChain(expr) : ExprResult(expr);
}

ExprResult Parser::ParsePrimary() {
  const Token& token = current();
  const int line = token.line;
  if (token.kind == TokenKind::kName) {
    return ParseNamePrimary();
  }
  if (token.kind == TokenKind::kString) {
    Expr* expr = MakeExpr(ExprKind::kConstant, line);
    std::string text;
    while (current().kind == TokenKind::kString) {
      text += current().text;
      Advance();
    }
    expr->constant = Value::String(text);
    return expr;
  }
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) {
    Expr* expr = MakeExpr(ExprKind::kConstant, line);
    expr->constant = token.kind == TokenKind::kInteger ? Value(token.integer) : Value(token.real);
    Advance();
    return expr;
  }
  if (SkipOperator("(")) {
    TRY_ASSIGN(const Expr* expr, ParseTuple(true, {}, true));
    TRY(Expect(")"));
    return expr;
  }
  if (AtOperator("[")) {
    return ParseListLiteral();
  }
  if (AtOperator("{")) {
    return ParseDictLiteral();
  }
  return Unexpected("an expression");
}

ExprResult Parser::ParseNamePrimary() {
  const std::string name = current().text;
  Expr* expr = MakeExpr(ExprKind::kConstant, current().line);
  Advance();
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    expr->constant = Value(name[0] == 't' || name[0] == 'T');
    return expr;
  }
  if (name == "none" || name == "None") {
    expr->constant = Value::MakeNone();
    return expr;
  }
  expr->kind = ExprKind::kName;
  expr->name = name;
  expr->symbol = Intern(name);
  for (MacroDef* macro : open_macros_) {
    const bool is_parameter = std::find(macro->parameters.begin(), macro->parameters.end(),
                                        expr->symbol) != macro->parameters.end();
    macro->uses_caller |= !is_parameter && expr->symbol == template_->caller;
    macro->uses_varargs |= !is_parameter && expr->symbol == template_->varargs;
    macro->uses_kwargs |= !is_parameter && expr->symbol == template_->kwargs;
  }
  return expr;
}

ExprResult Parser::ParseListLiteral() {
  Expr* expr = MakeExpr(ExprKind::kList, current().line);
  Advance();
  while (!AtOperator("]")) {
    TRY_ASSIGN(const Expr* item, ParseExpression());
    expr->children.push_back(item);
    if (!SkipOperator(",")) {
      break;
    }
  }
  TRY(Expect("]"));
  return Finish(expr);
}

ExprResult Parser::ParseDictLiteral() {
  Expr* expr = MakeExpr(ExprKind::kDict, current().line);
  Advance();
  while (!AtOperator("}")) {
    TRY_ASSIGN(const Expr* key, ParseExpression());
    TRY(Expect(":"));
    TRY_ASSIGN(const Expr* value, ParseExpression());
    expr->children.push_back(key);
    expr->children.push_back(value);
    if (!SkipOperator(",")) {
      break;
    }
  }
  TRY(Expect("}"));
  return Finish(expr);
}

ExprResult Parser::ParsePostfix(const Expr* expr) {
  while (true) {
    if (AtOperator(".")) {
      TRY_ASSIGN(expr, ParseDot(expr));
    } else if (AtOperator("[")) {
      TRY_ASSIGN(expr, ParseSubscript(expr));
    } else if (AtOperator("(")) {
      TRY_ASSIGN(expr, ParseCall(expr));
    } else {
      return expr;
    }
  }
}

ExprResult Parser::ParseFilterChain(const Expr* expr) {
  while (true) {
    if (SkipOperator("|")) {
      TRY_ASSIGN(expr, ParseFilter(expr));
    } else if (AtName("is")) {
      TRY_ASSIGN(expr, ParseTest(expr));
    } else if (AtOperator("(")) {
      TRY_ASSIGN(expr, ParseCall(expr));
    } else {
      return expr;
    }
  }
}

ExprResult Parser::ParseDot(const Expr* object) {
  const int line = current().line;
  Advance();
  if (current().kind == TokenKind::kInteger) {
    Expr* index = MakeExpr(ExprKind::kConstant, line);
    index->constant = Value(current().integer);
    Advance();
    return Finish(MakeExpr(ExprKind::kItem, line, {object, index}));
  }
  TRY_ASSIGN(const std::string name, TakeName("a name or number after '.'"));
  Expr* expr = MakeExpr(ExprKind::kAttribute, line, {object});
  expr->constant = Value::String(name);
  return Finish(expr);
}

ExprResult Parser::ParseSubscript(const Expr* object) {
  const int line = current().line;
  Advance();
  if (AtOperator("]") || AtOperator(",")) {
    return Unexpected("an index");
  }
  TRY_ASSIGN(const Expr* expr, ParseSliceOrItem(object));
  if (!AtOperator(",")) {
    TRY(Expect("]"));
    return expr;
  }
  if (expr->kind == ExprKind::kSlice) {
    return Bad("a slice among several indexes is not supported");
  }
  Expr* key = MakeExpr(ExprKind::kTuple, line, {expr->children[1]});
  while (SkipOperator(",") && !AtOperator("]")) {
    TRY_ASSIGN(const Expr* next, ParseExpression());
    key->children.push_back(next);
  }
  TRY(Expect("]"));
  TRY_ASSIGN(const Expr* whole, Finish(key));
  return Finish(MakeExpr(ExprKind::kItem, line, {object, whole}));
}

ExprResult Parser::ParseSliceOrItem(const Expr* object) {
  const int line = current().line;
  const Expr* parts[3] = {nullptr, nullptr, nullptr};
  bool is_slice = false;
  for (int i = 0; i < 3; ++i) {
    if (!AtOperator(":") && !AtOperator("]") && !AtOperator(",")) {
      TRY_ASSIGN(parts[i], ParseExpression());
    }
    if (i == 2 || !SkipOperator(":")) {
      break;
    }
    is_slice = true;
  }
  if (!is_slice) {
    return Finish(MakeExpr(ExprKind::kItem, line, {object, parts[0]}));
  }
  return Finish(MakeExpr(ExprKind::kSlice, line, {object, parts[0], parts[1], parts[2]}));
}

ExprResult Parser::ParseCall(const Expr* callee) {
  Expr* expr = MakeExpr(ExprKind::kCall, current().line, {callee});
  TRY_ASSIGN(expr->arguments, ParseArguments());
  return Finish(expr);
}

Result<const Arguments*> Parser::ParseArguments() {
  TRY(Expect("("));
  Arguments& args = template_->arguments.emplace_back();
  while (!AtOperator(")")) {
    TRY(ParseArgument(&args));
    if (!SkipOperator(",")) {
      break;
    }
  }
  TRY(Expect(")"));
  return &args;
}

Result<void> Parser::ParseArgument(Arguments* args) {
  if (args->rest_keywords != nullptr) {
    return Bad("an argument after **");
  }
  if (SkipOperator("*")) {
    TRY_ASSIGN(args->rest_positional, ParseExpression());
    return {};
  }
  if (SkipOperator("**")) {
    TRY_ASSIGN(args->rest_keywords, ParseExpression());
    return {};
  }
  if (current().kind == TokenKind::kName && peek().kind == TokenKind::kOperator &&
      peek().text == "=") {
    const std::string name = current().text;
    Advance();
    Advance();
    TRY_ASSIGN(const Expr* value, ParseExpression());
    args->keywords.push_back({name, value});
    return {};
  }
  if (args->rest_positional != nullptr || !args->keywords.empty()) {
    return Bad("a positional argument after a keyword argument");
  }
  TRY_ASSIGN(const Expr* value, ParseExpression());
  args->positional.push_back(value);
  return {};
}

Result<std::string> Parser::ParseDottedName() {
  TRY_ASSIGN(std::string name, TakeName("a name"));
  while (SkipOperator(".")) {
    TRY_ASSIGN(const std::string part, TakeName("a name"));
    name += "." + part;
  }
  return name;
}

// After the '|' (or after {% filter).
ExprResult Parser::ParseFilter(const Expr* input) {
  const int line = current().line;
  Expr* expr = MakeExpr(ExprKind::kFilter, line, {input});
  TRY_ASSIGN(expr->name, ParseDottedName());
  expr->builtin = FindFilter(expr->name);
  if (expr->builtin == nullptr) {
    unknown_.push_back("line " + std::to_string(line) + ": no filter named '" + expr->name + "'");
  }
  if (AtOperator("(")) {
    TRY_ASSIGN(expr->arguments, ParseArguments());
  }
  return Finish(expr);
}

ExprResult Parser::ParseTest(const Expr* value) {
  const int line = current().line;
  Advance();
  const bool is_negated = SkipName("not");
  Expr* expr = MakeExpr(ExprKind::kTest, line, {value});
  TRY_ASSIGN(expr->name, ParseDottedName());
  expr->builtin = FindTest(expr->name);
  if (expr->builtin == nullptr) {
    unknown_.push_back("line " + std::to_string(line) + ": no test named '" + expr->name + "'");
  }
  const TokenKind kind = current().kind;
  if (AtOperator("(")) {
    TRY_ASSIGN(expr->arguments, ParseArguments());
  } else if (AtName("is")) {
    return Bad("tests can't be chained with 'is'");
  } else if ((kind == TokenKind::kName && !AtAnyName({"else", "or", "and"})) ||
             kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || AtOperator("[") || AtOperator("{")) {
    TRY_ASSIGN(const Expr* operand, ParsePrimary());
    TRY_ASSIGN(operand, ParsePostfix(operand));
    Arguments& args = template_->arguments.emplace_back();
    args.positional.push_back(operand);
    expr->arguments = &args;
  }
  TRY_ASSIGN(const Expr* test, Finish(expr));
  return is_negated ? Finish(MakeExpr(ExprKind::kNot, line, {test})) : ExprResult(test);
}

}  // namespace fak::text::jinja

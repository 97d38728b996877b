#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/parser.h"
#include "text/jinja/parser_internal.h"

namespace fak::text::jinja {

Parser::Parser(std::string_view source, std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  template_->source = std::string(source);
  template_->loop = Intern("loop");
  template_->caller = Intern("caller");
  template_->varargs = Intern("varargs");
  template_->kwargs = Intern("kwargs");
}

Result<std::shared_ptr<const Template>> Parser::Run() {
  TRY_ASSIGN(template_->body, ParseBody({}, "template"));
  if (!unknown_.empty()) {
    return Fail(Code::kUnsupported, unknown_.front());
  }
  return std::shared_ptr<const Template>(template_);
}

// ---- tokens

bool Parser::AtOperator(std::string_view op) const {
  return current().kind == TokenKind::kOperator && current().text == op;
}

bool Parser::AtName(std::string_view name) const {
  return current().kind == TokenKind::kName && current().text == name;
}

bool Parser::AtAnyName(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(), [&](auto name) { return AtName(name); });
}

bool Parser::SkipOperator(std::string_view op) {
  const bool is_there = AtOperator(op);
  if (is_there) {
    Advance();
  }
  return is_there;
}

bool Parser::SkipName(std::string_view name) {
  const bool is_there = AtName(name);
  if (is_there) {
    Advance();
  }
  return is_there;
}

Result<void> Parser::Expect(std::string_view op) {
  if (!SkipOperator(op)) {
    return Unexpected("'" + std::string(op) + "'");
  }
  return {};
}

Result<void> Parser::ExpectKind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    return Unexpected(what);
  }
  Advance();
  return {};
}

Result<std::string> Parser::TakeName(std::string_view what) {
  if (current().kind != TokenKind::kName) {
    return Unexpected(what);
  }
  std::string name = current().text;
  Advance();
  return name;
}

tl::unexpected<Error> Parser::BadAt(int line, std::string_view what) {
  return Fail(Code::kInvalidArgument, "line " + std::to_string(line) + ": " + std::string(what));
}

tl::unexpected<Error> Parser::Unexpected(std::string_view wanted) const {
  const Token& token = current();
  std::string found;
  switch (token.kind) {
    case TokenKind::kEnd: found = "the end of the template"; break;
    case TokenKind::kBlockEnd: found = "'%}'"; break;
    case TokenKind::kPrintEnd: found = "'}}'"; break;
    case TokenKind::kString: found = "a string"; break;
    default: found = "'" + token.text + "'"; break;
  }
  return Bad("expected " + std::string(wanted) + ", got " + found);
}

tl::unexpected<Error> Parser::TooDeep() const {
  return Fail(Code::kPayloadTooLarge, "line " + std::to_string(current().line) +
                                          ": nested deeper than kTemplateDepthMax (" +
                                          std::to_string(limits::kTemplateDepthMax) + ")");
}

// ---- nodes

Symbol Parser::Intern(const std::string& name) {
  const auto [entry, is_new] = symbols_.emplace(name, static_cast<Symbol>(template_->names.size()));
  if (is_new) {
    template_->names.push_back(name);
  }
  return entry->second;
}

Expr* Parser::MakeExpr(ExprKind kind, int line, std::vector<const Expr*> children) {
  Expr& expr = template_->exprs.emplace_back();
  expr.kind = kind;
  expr.line = line;
  expr.children = std::move(children);
  return &expr;
}

ExprResult Parser::Finish(Expr* expr) {
  int below = 0;
  const auto count = [&](const Expr* child) {
    below = std::max(below, child == nullptr ? 0 : child->depth);
  };
  std::for_each(expr->children.begin(), expr->children.end(), count);
  if (const Arguments* args = expr->arguments; args != nullptr) {
    std::for_each(args->positional.begin(), args->positional.end(), count);
    for (const Arguments::Keyword& keyword : args->keywords) {
      count(keyword.value);
    }
    count(args->rest_positional);
    count(args->rest_keywords);
  }
  expr->depth = below + 1;
  if (expr->depth > limits::kTemplateDepthMax) {
    return TooDeep();
  }
  return expr;
}

Stmt* Parser::MakeStmt(StmtKind kind, int line) {
  Stmt& stmt = template_->stmts.emplace_back();
  stmt.kind = kind;
  stmt.line = line;
  return &stmt;
}

// ---- statements

Result<Body> Parser::ParseBody(std::initializer_list<std::string_view> ends,
                               std::string_view opener) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) {
    return TooDeep();
  }
  const int opened_at = current().line;
  Body body;
  while (true) {
    if (current().kind == TokenKind::kData) {
      Stmt* text = MakeStmt(StmtKind::kText, current().line);
      text->text = current().text;
      body.push_back(text);
      Advance();
    } else if (current().kind == TokenKind::kPrintBegin) {
      TRY_ASSIGN(const Stmt* print, ParsePrint());
      body.push_back(print);
    } else if (current().kind == TokenKind::kBlockBegin) {
      Advance();
      if (AtAnyName(ends)) {
        return body;
      }
      TRY_ASSIGN(const Stmt* stmt, ParseStatement());
      body.push_back(stmt);
      TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    } else {
      break;
    }
  }
  if (ends.size() != 0) {
    return BadAt(opened_at, "the '" + std::string(opener) + "' block has no end");
  }
  return body;
}

Result<Body> Parser::ParseBlockBody(std::string_view end, std::string_view opener) {
  SkipOperator(":");
  TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
  TRY_ASSIGN(Body body, ParseBody({end}, opener));
  Advance();
  return body;
}

StmtResult Parser::ParsePrint() {
  Stmt* print = MakeStmt(StmtKind::kPrint, current().line);
  Advance();
  TRY_ASSIGN(print->expr, ParseTuple());
  TRY(ExpectKind(TokenKind::kPrintEnd, "'}}'"));
  return print;
}

StmtResult Parser::ParseStatement() {
  using Parse = StmtResult (Parser::*)();
  static constexpr std::pair<std::string_view, Parse> kStatements[] = {
      {"if", &Parser::ParseIf},
      {"for", &Parser::ParseFor},
      {"set", &Parser::ParseSet},
      {"with", &Parser::ParseWith},
      {"macro", &Parser::ParseMacro},
      {"call", &Parser::ParseCallBlock},
      {"filter", &Parser::ParseFilterBlock},
      {"generation", &Parser::ParseGeneration},
      {"print", &Parser::ParsePrintTag},
  };
  if (current().kind != TokenKind::kName) {
    return Unexpected("the name of a statement");
  }
  for (const auto& [name, parse] : kStatements) {
    if (AtName(name)) {
      return (this->*parse)();
    }
  }
  if (AtName("break")) {
    return ParseLoopControl(StmtKind::kBreak);
  }
  if (AtName("continue")) {
    return ParseLoopControl(StmtKind::kContinue);
  }
  return Fail(Code::kUnsupported, "line " + std::to_string(current().line) + ": the statement '" +
                                      current().text + "' is not supported here");
}

// {% print a, b %}
StmtResult Parser::ParsePrintTag() {
  Stmt* scope = MakeStmt(StmtKind::kScope, current().line);
  Advance();
  while (current().kind != TokenKind::kBlockEnd) {
    Stmt* print = MakeStmt(StmtKind::kPrint, current().line);
    TRY_ASSIGN(print->expr, ParseExpression());
    scope->body.push_back(print);
    if (current().kind != TokenKind::kBlockEnd) {
      TRY(Expect(","));
    }
  }
  return scope;
}

StmtResult Parser::ParseIf() {
  Stmt* stmt = MakeStmt(StmtKind::kIf, current().line);
  const size_t unknown = unknown_.size();
  bool has_more = true;
  while (has_more) {
    const bool is_else = AtName("else");
    Advance();  // if, elif or else
    Stmt::Branch branch;
    if (!is_else) {
      TRY_ASSIGN(branch.condition, ParseTuple(false));
    }
    SkipOperator(":");
    TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
    if (is_else) {
      TRY_ASSIGN(branch.body, ParseBody({"endif"}, "if"));
    } else {
      TRY_ASSIGN(branch.body, ParseBody({"elif", "else", "endif"}, "if"));
    }
    stmt->branches.push_back(std::move(branch));
    has_more = !AtName("endif");
  }
  Advance();
  unknown_.resize(unknown);
  return stmt;
}

StmtResult Parser::ParseFor() {
  Stmt* stmt = MakeStmt(StmtKind::kFor, current().line);
  Advance();
  TRY_ASSIGN(stmt->target, ParseTarget(false));
  if (!SkipName("in")) {
    return Unexpected("'in'");
  }
  TRY_ASSIGN(stmt->expr, ParseTuple(false, {"recursive"}));
  if (SkipName("if")) {
    TRY_ASSIGN(stmt->condition, ParseExpression());
  }
  stmt->recursive = SkipName("recursive");
  SkipOperator(":");
  TRY(ExpectKind(TokenKind::kBlockEnd, "'%}'"));
  ++loop_depth_;
  auto body = ParseBody({"else", "endfor"}, "for");
  --loop_depth_;
  TRY_ASSIGN(stmt->body, std::move(body));
  if (SkipName("endfor")) {
    return stmt;
  }
  Advance();  // else
  TRY_ASSIGN(stmt->else_body, ParseBlockBody("endfor", "for"));
  return stmt;
}

StmtResult Parser::ParseSet() {
  Stmt* stmt = MakeStmt(StmtKind::kSet, current().line);
  Advance();
  TRY_ASSIGN(stmt->target, ParseTarget(true));
  if (SkipOperator("=")) {
    TRY_ASSIGN(stmt->expr, ParseTuple());
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  const Expr* filters = nullptr;
  while (SkipOperator("|")) {
    TRY_ASSIGN(filters, ParseFilter(filters));
  }
  stmt->expr = filters;
  TRY_ASSIGN(stmt->body, ParseBlockBody("endset", "set"));
  return stmt;
}

StmtResult Parser::ParseWith() {
  Stmt* stmt = MakeStmt(StmtKind::kWith, current().line);
  Advance();
  while (current().kind != TokenKind::kBlockEnd && !AtOperator(":")) {
    Stmt::Assignment assignment;
    TRY_ASSIGN(assignment.target, ParseSingleTarget(false));
    TRY(Expect("="));
    TRY_ASSIGN(assignment.value, ParseExpression());
    stmt->assignments.push_back(std::move(assignment));
    if (!SkipOperator(",")) {
      break;
    }
  }
  TRY_ASSIGN(stmt->body, ParseBlockBody("endwith", "with"));
  return stmt;
}

Result<void> Parser::ParseSignature(MacroDef* macro) {
  TRY(Expect("("));
  while (!AtOperator(")")) {
    TRY_ASSIGN(const std::string name, TakeName("a parameter name"));
    macro->parameters.push_back(Intern(name));
    if (SkipOperator("=")) {
      TRY_ASSIGN(const Expr* value, ParseExpression());
      macro->defaults.push_back(value);
    } else if (!macro->defaults.empty()) {
      return Bad("a parameter without a default after one with a default");
    }
    if (!SkipOperator(",")) {
      break;
    }
  }
  return Expect(")");
}

Result<void> Parser::ParseMacroBody(MacroDef* macro, std::string_view end,
                                    std::string_view opener) {
  const int loops = std::exchange(loop_depth_, 0);
  open_macros_.push_back(macro);
  auto body = ParseBlockBody(end, opener);
  open_macros_.pop_back();
  loop_depth_ = loops;
  TRY_ASSIGN(macro->body, std::move(body));
  return {};
}

StmtResult Parser::ParseMacro() {
  Stmt* stmt = MakeStmt(StmtKind::kMacro, current().line);
  Advance();
  MacroDef& macro = template_->macros.emplace_back();
  stmt->macro = &macro;
  TRY_ASSIGN(macro.name, TakeName("the macro's name"));
  stmt->symbol = Intern(macro.name);
  TRY(ParseSignature(&macro));
  TRY(ParseMacroBody(&macro, "endmacro", "macro"));
  return stmt;
}

StmtResult Parser::ParseCallBlock() {
  Stmt* stmt = MakeStmt(StmtKind::kCallBlock, current().line);
  Advance();
  MacroDef& macro = template_->macros.emplace_back();
  stmt->macro = &macro;
  if (AtOperator("(")) {
    TRY(ParseSignature(&macro));
  }
  TRY_ASSIGN(stmt->expr, ParseExpression());
  if (stmt->expr->kind != ExprKind::kCall) {
    return BadAt(stmt->line, "the 'call' block needs a call");
  }
  TRY(ParseMacroBody(&macro, "endcall", "call"));
  return stmt;
}

StmtResult Parser::ParseFilterBlock() {
  Stmt* stmt = MakeStmt(StmtKind::kFilterBlock, current().line);
  Advance();
  TRY_ASSIGN(const Expr* filters, ParseFilter(nullptr));
  while (SkipOperator("|")) {
    TRY_ASSIGN(filters, ParseFilter(filters));
  }
  stmt->expr = filters;
  TRY_ASSIGN(stmt->body, ParseBlockBody("endfilter", "filter"));
  return stmt;
}

// Marks what the model generated, for training; here it is a scope.
StmtResult Parser::ParseGeneration() {
  Stmt* stmt = MakeStmt(StmtKind::kScope, current().line);
  Advance();
  TRY_ASSIGN(stmt->body, ParseBlockBody("endgeneration", "generation"));
  return stmt;
}

StmtResult Parser::ParseLoopControl(StmtKind kind) {
  if (loop_depth_ == 0) {
    return Bad("'" + current().text + "' outside a loop");
  }
  Stmt* stmt = MakeStmt(kind, current().line);
  Advance();
  return stmt;
}

Result<Target> Parser::ParseSingleTarget(bool with_attribute) {
  const Nesting nesting(*this);
  if (nesting.too_deep()) {
    return TooDeep();
  }
  Target target;
  target.line = current().line;
  if (SkipOperator("(")) {
    TRY_ASSIGN(target, ParseTarget(with_attribute));
    TRY(Expect(")"));
    return target;
  }
  TRY_ASSIGN(const std::string name, TakeName("a name to assign to"));
  static constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                                    "False", "none", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants)) {
    return BadAt(target.line, "can't assign to '" + name + "'");
  }
  target.symbol = Intern(name);
  if (with_attribute && SkipOperator(".")) {
    TRY_ASSIGN(const std::string attribute, TakeName("a name after '.'"));
    target.kind = Target::Kind::kAttribute;
    target.attribute = Value::String(attribute);
  }
  return target;
}

// A name, an attribute of a namespace, or several with commas between.
Result<Target> Parser::ParseTarget(bool with_attribute) {
  TRY_ASSIGN(Target first, ParseSingleTarget(with_attribute));
  if (!AtOperator(",")) {
    return first;
  }
  Target tuple;
  tuple.kind = Target::Kind::kTuple;
  tuple.line = first.line;
  tuple.parts.push_back(std::move(first));
  while (SkipOperator(",") && !AtName("in") && !AtOperator("=") && !AtOperator(")")) {
    TRY_ASSIGN(Target next, ParseSingleTarget(with_attribute));
    tuple.parts.push_back(std::move(next));
  }
  return tuple;
}

Result<std::shared_ptr<const Template>> ParseTemplate(std::string_view source) {
  if (source.size() > limits::kTemplateBytesMax) {
    return Fail(Code::kPayloadTooLarge, "the template has " + std::to_string(source.size()) +
                                            " bytes, more than kTemplateBytesMax (" +
                                            std::to_string(limits::kTemplateBytesMax) + ")");
  }
  if (!IsValidUtf8(source)) {
    return Fail(Code::kInvalidArgument, "the template is not valid UTF-8");
  }
  TRY_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return Parser(source, std::move(tokens)).Run();
}

}  // namespace fak::text::jinja

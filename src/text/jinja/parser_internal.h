#pragma once

// The parser's class; only parse_*.cc include this.

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace fak::text::jinja {

using ExprResult = Result<const Expr*>;
using StmtResult = Result<const Stmt*>;

class Parser {
 public:
  Parser(std::string_view source, std::vector<Token> tokens);
  Result<std::shared_ptr<const Template>> Run();

 private:
  // Counts one level of nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --parser_.depth_; }
    bool too_deep() const { return parser_.depth_ > limits::kTemplateDepthMax; }

   private:
    Parser& parser_;
  };

  // Tokens
  const Token& current() const { return tokens_[next_]; }
  const Token& peek() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  void Advance() { next_ += next_ + 1 < tokens_.size() ? 1 : 0; }
  bool AtOperator(std::string_view op) const;
  bool AtName(std::string_view name) const;
  bool AtAnyName(std::initializer_list<std::string_view> names) const;
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  Result<void> Expect(std::string_view op);
  Result<void> ExpectKind(TokenKind kind, std::string_view what);
  Result<std::string> TakeName(std::string_view what);
  tl::unexpected<Error> Bad(std::string_view what) const { return BadAt(current().line, what); }
  static tl::unexpected<Error> BadAt(int line, std::string_view what);
  tl::unexpected<Error> Unexpected(std::string_view wanted) const;
  tl::unexpected<Error> TooDeep() const;

  // Nodes
  Symbol Intern(const std::string& name);
  Expr* MakeExpr(ExprKind kind, int line, std::vector<const Expr*> children = {});
  // Sets the depth and checks it.
  ExprResult Finish(Expr* expr);
  Stmt* MakeStmt(StmtKind kind, int line);

  // Statements (parse_statements.cc)
  // Parses until a block tag with one of the names, which is left current.
  Result<Body> ParseBody(std::initializer_list<std::string_view> ends, std::string_view opener);
  // The same after the opening tag's %}, and takes the single end tag's name.
  Result<Body> ParseBlockBody(std::string_view end, std::string_view opener);
  StmtResult ParseStatement();
  StmtResult ParsePrint();
  StmtResult ParsePrintTag();
  StmtResult ParseIf();
  StmtResult ParseFor();
  StmtResult ParseSet();
  StmtResult ParseWith();
  StmtResult ParseMacro();
  StmtResult ParseCallBlock();
  StmtResult ParseFilterBlock();
  StmtResult ParseGeneration();
  StmtResult ParseLoopControl(StmtKind kind);
  Result<void> ParseSignature(MacroDef* macro);
  Result<void> ParseMacroBody(MacroDef* macro, std::string_view end, std::string_view opener);
  Result<Target> ParseTarget(bool with_attribute);
  Result<Target> ParseSingleTarget(bool with_attribute);

  // Expressions (parse_expressions.cc), lowest precedence first
  ExprResult ParseTuple(bool with_condition = true,
                        std::initializer_list<std::string_view> ends = {},
                        bool in_parentheses = false);
  bool AtTupleEnd(std::initializer_list<std::string_view> ends) const;
  ExprResult ParseExpression(bool with_condition = true);
  ExprResult ParseCondition();
  ExprResult ParseOr();
  ExprResult ParseAnd();
  ExprResult ParseNot();
  ExprResult ParseCompare();
  ExprResult ParseSum();
  ExprResult ParseConcat();
  ExprResult ParseProduct();
  ExprResult ParsePower();
  ExprResult ParseUnary(bool with_filter = true);
  ExprResult ParsePrimary();
  ExprResult ParseNamePrimary();
  ExprResult ParseListLiteral();
  ExprResult ParseDictLiteral();
  ExprResult ParsePostfix(const Expr* expr);
  ExprResult ParseFilterChain(const Expr* expr);
  ExprResult ParseDot(const Expr* object);
  ExprResult ParseSubscript(const Expr* object);
  ExprResult ParseSliceOrItem(const Expr* object);
  ExprResult ParseCall(const Expr* callee);
  ExprResult ParseFilter(const Expr* input);
  ExprResult ParseTest(const Expr* value);
  Result<const Arguments*> ParseArguments();
  Result<void> ParseArgument(Arguments* args);
  Result<std::string> ParseDottedName();

  std::shared_ptr<Template> template_ = std::make_shared<Template>();
  std::vector<Token> tokens_;
  size_t next_ = 0;
  std::map<std::string, Symbol> symbols_;
  int depth_ = 0;
  int loop_depth_ = 0;  // loops open in this macro
  // Filters and tests we don't have, as errors. An `if` around one takes it off: then it is an
  // error only when it is reached.
  std::vector<std::string> unknown_;
  std::vector<MacroDef*> open_macros_;
};

}  // namespace fak::text::jinja

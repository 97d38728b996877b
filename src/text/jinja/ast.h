#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace fak::text::jinja {

struct Builtin;

// Names of variables are interned: a Symbol indexes Template::names.
using Symbol = uint32_t;

// Arguments of a call as written. `*args` and `**kwargs` come last and are null when absent.
struct Arguments;

enum class ExprKind : uint8_t {
  kConstant,   // constant
  kName,       // symbol
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value ...
  kAttribute,  // children[0] . constant
  kItem,       // children[0] [children[1]]
  kSlice,      // children[0] [children[1] : children[2] : children[3]], null when left out
  kCall,       // children[0] ( arguments )
  kFilter,     // children[0] | builtin ( arguments ); children[0] is null in a filter block
  kTest,       // children[0] is builtin ( arguments )
  kNot,        // children[0]
  kNegate,     // children[0]
  kPlus,       // children[0]
  kAnd,        // children, two or more, left to right
  kOr,
  kConcat,      // children joined as text by ~
  kArithmetic,  // children[0] operators[0] children[1] operators[1] ..., left to right
  kCompare,     // the same, chained as in Python
  kCondition,   // children: then, condition, else or null
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,  // clang-format off
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn,  // clang-format on
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int depth = 1;  // levels of expressions below and including this one
  Symbol symbol = 0;
  Value constant;
  std::vector<const Expr*> children;
  std::vector<Operator> operators;
  const Arguments* arguments = nullptr;
  std::string name;                  // filter or test as written
  const Builtin* builtin = nullptr;  // null: unknown, and inside an `if`
};

struct Arguments {
  struct Keyword {
    std::string name;
    const Expr* value = nullptr;
  };
  std::vector<const Expr*> positional;
  std::vector<Keyword> keywords;
  const Expr* rest_positional = nullptr;
  const Expr* rest_keywords = nullptr;
};

// What an assignment writes to.
struct Target {
  enum class Kind : uint8_t { kName, kAttribute, kTuple };
  Kind kind = Kind::kName;
  int line = 0;
  Symbol symbol = 0;
  Value attribute;  // kAttribute: name of the namespace's attribute
  std::vector<Target> parts;
};

struct Stmt;
using Body = std::vector<const Stmt*>;

// A macro, or the body of a call block (which is an anonymous macro).
struct MacroDef {
  std::string name;  // empty: anonymous
  std::vector<Symbol> parameters;
  std::vector<const Expr*> defaults;  // of the last parameters
  Body body;
  // The body reads these names, and no parameter has them.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

enum class StmtKind : uint8_t {
  kText,         // text
  kPrint,        // expr
  kIf,           // branches, the last one's condition may be null
  kFor,          // target, expr, condition, body, else_body, recursive
  kSet,          // target = expr
  kSetBlock,     // target, expr (a chain of filters, or null), body
  kWith,         // assignments, body
  kMacro,        // symbol, macro
  kCallBlock,    // expr (a call), macro
  kFilterBlock,  // expr (a chain of filters whose innermost input is null), body
  kScope,        // body ({% generation %})
  kBreak,
  kContinue,
};

struct Stmt {
  struct Branch {
    const Expr* condition = nullptr;
    Body body;
  };
  struct Assignment {
    Target target;
    const Expr* value = nullptr;
  };
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  const Expr* expr = nullptr;
  const Expr* condition = nullptr;
  Target target;
  Body body;
  Body else_body;
  std::vector<Branch> branches;
  std::vector<Assignment> assignments;
  bool recursive = false;
  Symbol symbol = 0;
  const MacroDef* macro = nullptr;
};

// A parsed template. The deques own every node, so that nodes can point at each other and nothing
// recurses on destruction. Immutable once parsed.
struct Template {
  std::string source;
  Body body;
  std::vector<std::string> names;
  // Names the parser and the evaluator share.
  Symbol loop = 0;
  Symbol caller = 0;
  Symbol varargs = 0;
  Symbol kwargs = 0;

  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  std::deque<Arguments> arguments;
  std::deque<MacroDef> macros;
};

}  // namespace fak::text::jinja

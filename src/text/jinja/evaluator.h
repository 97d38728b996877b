#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// The variables of one block of a template; look-ups go on in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  int depth = 1;  // scopes up to the outermost one
  std::vector<std::pair<Symbol, Value>> variables;
};

// What can be called: a macro with the scope it was defined in, a function of ours, a method with
// its object, and jinja2's two stateful helpers.
struct Callable {
  enum class Kind { kMacro, kFunction, kMethod, kCycler, kJoiner };
  Kind kind = Kind::kFunction;
  const MacroDef* macro = nullptr;
  std::shared_ptr<Scope> scope;
  const Builtin* builtin = nullptr;
  Value self;
  std::vector<Value> items;  // of the cycler; the joiner's separator
  size_t position = 0;       // of the cycler; how often the joiner was called
  int depth = 1;             // see ContainerDepth()
};

// The variable `loop`.
struct LoopState {
  ListRef items;
  size_t index = 0;
  int depth0 = 0;
  int container_depth = 1;     // see ContainerDepth()
  const Stmt* stmt = nullptr;  // of a recursive loop, which can be called
  std::shared_ptr<Scope> scope;
  std::vector<Value> changed;  // what loop.changed() saw last
  bool was_changed_called = false;
  bool is_tracked = false;
};

// Renders one template once. Owned by one thread. Recursion is bounded by the budget.
class Evaluator {
 public:
  Evaluator(const Template& parsed, std::chrono::sys_seconds local_now,
            int steps_max = limits::kTemplateStepsMax);
  // Breaks the cycles that values of the template may have made.
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Whether the template mentions the variable at all.
  bool Mentions(std::string_view name) const;
  // Variables the template doesn't mention are dropped.
  void Define(std::string_view name, Value value);
  Result<Text> Run();

  // ---- for builtins

  Budget& budget() { return budget_; }
  std::chrono::sys_seconds local_now() const { return local_now_; }
  Result<Value> GetAttribute(const Value& object, const Value& name);  // object.name
  Result<Value> GetItem(const Value& object, const Value& key);        // object[key]
  Result<Value> Call(const Value& callee, const CallArguments& args);
  Result<Value> ApplyFilter(std::string_view name, const Value& input, const CallArguments& args);
  Result<Value> ApplyTest(std::string_view name, const Value& value, const CallArguments& args);
  // An error that already says all there is to say: no line is put before it.
  tl::unexpected<Error> RaiseVerbatim(std::string message);
  // Must be told of every list, dict, namespace or loop before it is changed.
  void WillChange(const Value& container);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  static constexpr size_t kVariablesAStep = 32;  // how many a look-up passes for one step

  // Runs `body` in a scope of its own.
  Result<Flow> ExecScope(const Body& body, std::shared_ptr<Scope> scope);
  Result<Flow> ExecBody(const Body& body);
  Result<Flow> Exec(const Stmt& stmt);
  Result<Flow> ExecIf(const Stmt& stmt);
  Result<Flow> ExecFor(const Stmt& stmt);
  Result<void> RunLoop(const Stmt& stmt, const Value& iterable, int depth0, Flow* flow);
  Result<ListRef> FilterItems(const Stmt& stmt, const ListRef& items);
  Result<void> ExecWith(const Stmt& stmt, Flow* flow);
  Result<void> ExecCallBlock(const Stmt& stmt);
  Result<void> Print(const Value& value);
  // What the body prints, as a text.
  Result<Value> Capture(const Body& body, std::shared_ptr<Scope> scope);
  Result<void> ExecCaptured(const Stmt& stmt);
  Result<void> Assign(const Target& target, const Value& value);
  Result<void> AssignTuple(const Target& target, const Value& value);
  Result<void> AssignAttribute(const Target& target, const Value& value);
  Value MakeMacro(const MacroDef& macro);
  std::shared_ptr<Scope> NewScope() const;

  Result<Value> Eval(const Expr& expr);
  Result<Value> EvalKind(const Expr& expr);
  Result<Value> EvalName(const Expr& expr);
  Result<Value> EvalList(const Expr& expr);
  Result<Value> EvalDict(const Expr& expr);
  Result<Value> EvalSlice(const Expr& expr);
  Result<Value> EvalItem(const Expr& expr);
  Result<Value> EvalCall(const Expr& expr, const Value* maybe_caller);
  Result<Value> EvalFilter(const Expr& expr);
  Result<Value> EvalTest(const Expr& expr);
  Result<Value> EvalLogic(const Expr& expr);
  Result<Value> EvalConcat(const Expr& expr);
  Result<Value> EvalArithmetic(const Expr& expr);
  Result<Value> EvalCompare(const Expr& expr);
  Result<Value> EvalCondition(const Expr& expr);
  Result<CallArguments> EvalArguments(const Arguments* args);
  Result<void> AddRestPositional(const Expr& rest, CallArguments* out);
  Result<void> AddRestKeywords(const Expr& rest, CallArguments* out);

  // Null when no scope has the name. Adds to *looked_at how many variables it passed.
  const Value* Lookup(Symbol symbol, size_t* looked_at) const;
  void KeepScope(const std::shared_ptr<Scope>& scope);
  Result<Value> CallBuiltin(const Builtin& builtin, const Value& self, const CallArguments& args);
  Status PayForInput(const Value& value, Charge charge);
  Result<Value> CallMacro(const Callable& macro, const CallArguments& args);
  Result<void> BindMacro(const MacroDef& macro, const CallArguments& args);
  Result<void> BindParameter(const MacroDef& macro, size_t i, const Value* given);
  Result<void> BindExtras(const MacroDef& macro, const CallArguments& args,
                          const std::vector<bool>& is_used);
  Result<Value> CallLoop(const LoopState& loop, const CallArguments& args);
  Result<void> CheckDepth(const Value& value) const;
  Error Located(Error error, int line);

  const Template& template_;
  std::chrono::sys_seconds local_now_;
  Budget budget_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  const Value* block_input_ = nullptr;  // what the innermost filter block printed
  bool is_error_located_ = false;
  std::vector<std::shared_ptr<Scope>> captured_scopes_;  // those that macros and loops hold
  std::vector<Value> changed_;                           // containers that were changed
};

}  // namespace fak::text::jinja

#include "text/jinja/evaluator.h"

#include <algorithm>

#include "text/jinja/operations.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

Evaluator::Evaluator(const Template& parsed, std::chrono::sys_seconds local_now, int steps_max)
    : template_(parsed),
      local_now_(local_now),
      budget_(steps_max),
      scope_(std::make_shared<Scope>()) {}

Evaluator::~Evaluator() {
  // Every cycle and every long chain runs through a container that was changed or a scope that was
  // captured. Both are held here; emptying them one by one, the youngest scope first, ends none of
  // the chains in one recursion.
  for (const auto& scope : captured_scopes_) {
    scope->variables.clear();
  }
  for (const Value& value : changed_) {
    if (value.is_list()) {
      value.list()->items.clear();
    } else if (value.is_dict()) {
      value.dict()->clear();
    } else if (value.is_namespace()) {
      value.space()->attributes.clear();
    } else {
      value.loop()->changed.clear();
    }
  }
  while (!captured_scopes_.empty()) {
    captured_scopes_.pop_back();
  }
}

bool Evaluator::Mentions(std::string_view name) const {
  return std::find(template_.names.begin(), template_.names.end(), name) != template_.names.end();
}

void Evaluator::Define(std::string_view name, Value value) {
  const auto found = std::find(template_.names.begin(), template_.names.end(), name);
  if (found != template_.names.end()) {
    const auto symbol = static_cast<Symbol>(found - template_.names.begin());
    std::erase_if(scope_->variables, [&](const auto& entry) { return entry.first == symbol; });
    scope_->variables.emplace_back(symbol, std::move(value));
  }
}

Result<Text> Evaluator::Run() {
  TextBuilder out;
  out_ = &out;
  TRY(ExecBody(template_.body));
  return out.Take();
}

tl::unexpected<Error> Evaluator::RaiseVerbatim(std::string message) {
  is_error_located_ = true;
  return Raise(std::move(message));
}

Error Evaluator::Located(Error error, int line) {
  if (!is_error_located_) {
    is_error_located_ = true;
    error.detail = "chat template: line " + std::to_string(line) + ": " + error.detail;
  }
  return error;
}

void Evaluator::WillChange(const Value& container) {
  bool& is_tracked = container.is_list()        ? container.list()->is_tracked
                     : container.is_dict()      ? container.dict()->is_tracked
                     : container.is_namespace() ? container.space()->attributes.is_tracked
                                                : container.loop()->is_tracked;
  if (!is_tracked) {
    is_tracked = true;
    changed_.push_back(container);
  }
}

void Evaluator::KeepScope(const std::shared_ptr<Scope>& scope) {
  if (captured_scopes_.empty() || captured_scopes_.back() != scope) {
    captured_scopes_.push_back(scope);
  }
}

Result<void> Evaluator::CheckDepth(const Value& value) const {
  if (ContainerDepth(value) > limits::kTemplateValueDepthMax) {
    return Fail(Code::kPayloadTooLarge, "a value nests more than kTemplateValueDepthMax (" +
                                            std::to_string(limits::kTemplateValueDepthMax) + ")");
  }
  return {};
}

std::shared_ptr<Scope> Evaluator::NewScope() const {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  scope->depth = scope_->depth + 1;
  return scope;
}

const Value* Evaluator::Lookup(Symbol symbol, size_t* looked_at) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    *looked_at += 1 + scope->variables.size();
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) {
        return &value;
      }
    }
  }
  return nullptr;
}

// ---- statements

Result<Evaluator::Flow> Evaluator::ExecBody(const Body& body) {
  for (const Stmt* stmt : body) {
    Result<Flow> flow = Exec(*stmt);
    if (!flow) {
      return Fail(Located(std::move(flow).error(), stmt->line));
    }
    if (*flow != Flow::kNext) {
      return *flow;
    }
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::ExecScope(const Body& body, std::shared_ptr<Scope> scope) {
  std::swap(scope_, scope);
  Result<Flow> flow = ExecBody(body);
  std::swap(scope_, scope);
  return flow;
}

Result<Evaluator::Flow> Evaluator::Exec(const Stmt& stmt) {
  const Budget::Level level(budget_);
  TRY(level.Check());
  TRY(budget_.Steps());
  Flow flow = Flow::kNext;
  switch (stmt.kind) {
    case StmtKind::kText:
      TRY(budget_.Write(stmt.text.size()));
      out_->Append(stmt.text);
      TRY(budget_.CheckSize(out_->size()));
      break;
    case StmtKind::kPrint: {
      TRY_ASSIGN(const Value value, Eval(*stmt.expr));
      TRY(Print(value));
      break;
    }
    case StmtKind::kIf: return ExecIf(stmt);
    case StmtKind::kFor: return ExecFor(stmt);
    case StmtKind::kSet: {
      TRY_ASSIGN(const Value value, Eval(*stmt.expr));
      TRY(Assign(stmt.target, value));
      break;
    }
    case StmtKind::kSetBlock:
    case StmtKind::kFilterBlock: TRY(ExecCaptured(stmt)); break;
    case StmtKind::kWith: TRY(ExecWith(stmt, &flow)); break;
    case StmtKind::kMacro:
      TRY(Assign(Target{Target::Kind::kName, stmt.line, stmt.symbol, {}, {}},
                 MakeMacro(*stmt.macro)));
      break;
    case StmtKind::kCallBlock: TRY(ExecCallBlock(stmt)); break;
    case StmtKind::kScope: return ExecScope(stmt.body, NewScope());
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
  }
  return flow;
}

Result<void> Evaluator::Print(const Value& value) {
  TRY_ASSIGN(const TextRef text, Str(budget_, value));
  TRY(budget_.Write(*text));
  out_->Append(*text);
  return budget_.CheckSize(out_->size());
}

Result<Evaluator::Flow> Evaluator::ExecIf(const Stmt& stmt) {
  for (const Stmt::Branch& branch : stmt.branches) {
    if (branch.condition != nullptr) {
      TRY_ASSIGN(const Value condition, Eval(*branch.condition));
      if (!Truthy(condition)) {
        continue;
      }
    }
    return ExecBody(branch.body);
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::ExecFor(const Stmt& stmt) {
  TRY_ASSIGN(const Value iterable, Eval(*stmt.expr));
  Flow flow = Flow::kNext;
  TRY(RunLoop(stmt, iterable, 0, &flow));
  return flow;
}

// The elements for which the loop's own `if` holds. It sees the outer `loop`.
Result<ListRef> Evaluator::FilterItems(const Stmt& stmt, const ListRef& items) {
  auto kept = std::make_shared<List>();
  std::shared_ptr<Scope> scope = NewScope();
  std::swap(scope_, scope);
  Result<void> status;
  for (size_t i = 0; i < items->items.size() && status; ++i) {
    scope_->variables.clear();
    const Value item = items->items[i];
    status = Assign(stmt.target, item);
    if (status) {
      Result<Value> condition = Eval(*stmt.condition);
      if (!condition) {
        status = Fail(std::move(condition).error());
      } else if (Truthy(*condition)) {
        kept->items.push_back(item);
        kept->depth = std::max(kept->depth, 1 + ContainerDepth(item));
      }
    }
  }
  std::swap(scope_, scope);
  TRY(status);
  return kept;
}

Result<void> Evaluator::RunLoop(const Stmt& stmt, const Value& iterable, int depth0, Flow* flow) {
  TRY_ASSIGN(ListRef items, Iterate(budget_, iterable));
  if (stmt.condition != nullptr) {
    TRY_ASSIGN(items, FilterItems(stmt, items));
  }
  auto loop = std::make_shared<LoopState>();
  loop->items = items;
  loop->depth0 = depth0;
  loop->stmt = stmt.recursive ? &stmt : nullptr;
  loop->container_depth = 1 + items->depth;
  if (stmt.recursive) {
    loop->scope = scope_;
    KeepScope(scope_);
  }
  bool is_any_finished = false;  // as in jinja2, a turn that `continue` ends doesn't count
  for (size_t i = 0; i < items->items.size(); ++i) {
    TRY(budget_.Steps());
    loop->index = i;
    std::shared_ptr<Scope> scope = NewScope();
    scope->variables.emplace_back(template_.loop, Value(loop));
    std::swap(scope_, scope);
    Result<Flow> inner = Flow::kNext;
    if (Result<void> assigned = Assign(stmt.target, Value(items->items[i])); !assigned) {
      inner = Fail(std::move(assigned).error());
    } else {
      inner = ExecBody(stmt.body);
    }
    std::swap(scope_, scope);
    TRY(inner);
    is_any_finished |= *inner == Flow::kNext;
    if (*inner == Flow::kBreak) {
      break;
    }
  }
  if (!is_any_finished && !stmt.else_body.empty()) {
    TRY_ASSIGN(*flow, ExecScope(stmt.else_body, NewScope()));
  }
  return {};
}

Result<void> Evaluator::ExecWith(const Stmt& stmt, Flow* flow) {
  std::shared_ptr<Scope> scope = NewScope();
  std::vector<Value> values;
  for (const Stmt::Assignment& assignment : stmt.assignments) {
    TRY_ASSIGN(Value value, Eval(*assignment.value));
    values.push_back(std::move(value));
  }
  std::swap(scope_, scope);
  Result<void> status;
  for (size_t i = 0; i < values.size() && status; ++i) {
    status = Assign(stmt.assignments[i].target, values[i]);
  }
  std::swap(scope_, scope);
  TRY(status);
  TRY_ASSIGN(*flow, ExecScope(stmt.body, std::move(scope)));
  return {};
}

Result<Value> Evaluator::Capture(const Body& body, std::shared_ptr<Scope> scope) {
  TextBuilder captured;
  TextBuilder* outer = std::exchange(out_, &captured);
  Result<Flow> flow = ExecScope(body, std::move(scope));
  out_ = outer;
  TRY(flow);
  return MakeText(budget_, captured.Take());
}

// {% set x %} and {% filter f %}: a body whose text goes through filters.
Result<void> Evaluator::ExecCaptured(const Stmt& stmt) {
  TRY_ASSIGN(Value value, Capture(stmt.body, NewScope()));
  if (stmt.expr != nullptr) {
    const Value* outer = std::exchange(block_input_, &value);
    Result<Value> filtered = Eval(*stmt.expr);
    block_input_ = outer;
    TRY_ASSIGN(value, std::move(filtered));
  }
  return stmt.kind == StmtKind::kSetBlock ? Assign(stmt.target, value) : Print(value);
}

Result<void> Evaluator::ExecCallBlock(const Stmt& stmt) {
  const Value caller = MakeMacro(*stmt.macro);
  TRY_ASSIGN(const Value value, EvalCall(*stmt.expr, &caller));
  return Print(value);
}

Value Evaluator::MakeMacro(const MacroDef& macro) {
  KeepScope(scope_);
  auto callable = std::make_shared<Callable>();
  callable->kind = Callable::Kind::kMacro;
  callable->macro = &macro;
  callable->scope = scope_;
  return Value(std::move(callable));
}

Result<void> Evaluator::Assign(const Target& target, const Value& value) {
  TRY(budget_.Steps(1 + scope_->variables.size() / kVariablesAStep));
  TRY(CheckDepth(value));
  if (target.kind == Target::Kind::kTuple) {
    return AssignTuple(target, value);
  }
  if (target.kind == Target::Kind::kAttribute) {
    return AssignAttribute(target, value);
  }
  for (auto& [name, old] : scope_->variables) {
    if (name == target.symbol) {
      old = value;
      return {};
    }
  }
  scope_->variables.emplace_back(target.symbol, value);
  return {};
}

Result<void> Evaluator::AssignTuple(const Target& target, const Value& value) {
  if (value.is_undefined()) {
    return RaiseUndefined(value);
  }
  TRY_ASSIGN(const ListRef list, Iterate(budget_, value));
  const std::vector<Value> items = list->items;
  const std::string wanted = std::to_string(target.parts.size());
  if (items.size() > target.parts.size()) {
    return Raise("too many values to unpack (expected " + wanted + ")");
  }
  if (items.size() < target.parts.size()) {
    return Raise("not enough values to unpack (expected " + wanted + ", got " +
                 std::to_string(items.size()) + ")");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    TRY(Assign(target.parts[i], items[i]));
  }
  return {};
}

Result<void> Evaluator::AssignAttribute(const Target& target, const Value& value) {
  size_t looked_at = 0;
  const Value* found = Lookup(target.symbol, &looked_at);
  TRY(budget_.Steps(looked_at / kVariablesAStep));
  if (found == nullptr || !found->is_namespace()) {
    return Raise("cannot assign attribute on non-namespace object");
  }
  const Value space = *found;
  TRY(PayForKey(budget_, target.attribute));
  WillChange(space);
  space.space()->attributes.Set(target.attribute, value);
  return {};
}

}  // namespace fak::text::jinja

#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/operations.h"

namespace fak::text::jinja {

namespace {

// jinja2's name for an object in messages about what it lacks.
std::string DescribeObject(const Value& value) {
  return value.is_none() ? "None" : std::string(TypeName(value)) + " object";
}

Value LacksAttribute(std::string_view object, std::string_view name) {
  return Value::MakeUndefined("'" + std::string(object) + "' has no attribute '" +
                              std::string(name) + "'");
}

// What is read of `loop`; undefined when it has no such attribute.
Value LoopAttribute(const LoopState& loop, std::string_view name) {
  const auto index0 = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items->items.size());
  if (name == "index0" || name == "index") {
    return Value(index0 + (name == "index" ? 1 : 0));
  }
  if (name == "revindex0" || name == "revindex") {
    return Value(length - index0 - (name == "revindex0" ? 1 : 0));
  }
  if (name == "first") {
    return Value(index0 == 0);
  }
  if (name == "last") {
    return Value(index0 + 1 >= length);
  }
  if (name == "length") {
    return Value(length);
  }
  if (name == "depth0" || name == "depth") {
    return Value(int64_t{loop.depth0} + (name == "depth" ? 1 : 0));
  }
  if (name == "previtem") {
    return index0 == 0 ? Value::MakeUndefined("there is no previous item")
                       : loop.items->items[loop.index - 1];
  }
  if (name == "nextitem") {
    return index0 + 1 >= length ? Value::MakeUndefined("there is no next item")
                                : loop.items->items[loop.index + 1];
  }
  return LacksAttribute("LoopContext object", name);
}

}  // namespace

Result<Value> Evaluator::GetAttribute(const Value& object, const Value& name) {
  const std::string& bytes = name.text().bytes;
  TRY(budget_.Scan(bytes.size()));
  if (object.is_undefined()) {
    return RaiseUndefined(object);
  }
  bool is_known = false;
  if (const Builtin* method = FindMethod(object, bytes, &is_known)) {
    auto callable = std::make_shared<Callable>();
    callable->kind = Callable::Kind::kMethod;
    callable->builtin = method;
    callable->self = object;
    callable->depth = 1 + ContainerDepth(object);
    return Value(std::move(callable));
  }
  if (is_known) {
    return Fail(Code::kUnsupported, "the method '" + bytes + "' of " +
                                        std::string(TypeName(object)) + " is not supported");
  }
  if (object.is_loop()) {
    return LoopAttribute(*object.loop(), bytes);
  }
  if (object.is_callable() && object.callable()->kind == Callable::Kind::kCycler &&
      bytes == "current") {
    return object.callable()->items[object.callable()->position];
  }
  const Value* found = object.is_dict()        ? object.dict()->Find(name)
                       : object.is_namespace() ? object.space()->attributes.Find(name)
                                               : nullptr;
  return found != nullptr ? *found : LacksAttribute(DescribeObject(object), bytes);
}

Result<Value> Evaluator::GetItem(const Value& object, const Value& key) {
  if (object.is_undefined()) {
    return RaiseUndefined(object);
  }
  TRY(PayForKey(budget_, key));
  TRY_ASSIGN(const std::optional<Value> found, Subscript(budget_, object, key));
  if (found) {
    return *found;
  }
  if (key.is_string() && !object.is_dict()) {
    return GetAttribute(object, key);
  }
  if (key.is_string()) {
    bool is_known = false;
    return FindMethod(object, key.text().bytes, &is_known) != nullptr
               ? GetAttribute(object, key)
               : LacksAttribute(DescribeObject(object), key.text().bytes);
  }
  return Value::MakeUndefined(DescribeObject(object) + " has no such element");
}

Status Evaluator::PayForInput(const Value& value, Charge charge) {
  const size_t bytes = value.is_string()    ? value.text().bytes.size()
                       : value.is_big_int() ? value.big_int().digits->size()
                                            : 0;
  TRY(charge == Charge::kScan ? budget_.Scan(bytes) : budget_.Decode(bytes));
  return budget_.Steps(value.is_list()   ? value.list()->items.size()
                       : value.is_dict() ? value.dict()->entries().size()
                                         : 0);
}

Result<Value> Evaluator::CallBuiltin(const Builtin& builtin, const Value& self,
                                     const CallArguments& args) {
  TRY(budget_.Steps());
  if (builtin.charge != Charge::kItself) {
    TRY(PayForInput(self, builtin.charge));
    for (const Value& value : args.positional) {
      TRY(PayForInput(value, builtin.charge));
    }
    for (const auto& [name, value] : args.keywords) {
      TRY(PayForInput(value, builtin.charge));
    }
  }
  TRY_ASSIGN(const BoundArguments bound, Bind(builtin.name, builtin.parameters, args));
  return builtin.function(*this, self, bound);
}

// A call block passes its body as the keyword argument `caller`.
Result<Value> Evaluator::EvalCall(const Expr& expr, const Value* maybe_caller) {
  const Expr& callee = *expr.children[0];
  Value function;
  if (callee.kind == ExprKind::kAttribute) {
    TRY_ASSIGN(const Value object, Eval(*callee.children[0]));
    bool is_known = false;
    const Builtin* method = object.is_undefined()
                                ? nullptr
                                : FindMethod(object, callee.constant.text().bytes, &is_known);
    if (method != nullptr) {  // without a bound method in between
      TRY_ASSIGN(const CallArguments args, EvalArguments(expr.arguments));
      return CallBuiltin(*method, object, args);
    }
    TRY_ASSIGN(function, GetAttribute(object, callee.constant));
  } else {
    TRY_ASSIGN(function, Eval(callee));
  }
  TRY_ASSIGN(CallArguments args, EvalArguments(expr.arguments));
  if (maybe_caller != nullptr) {
    args.keywords.emplace_back("caller", *maybe_caller);
  }
  return Call(function, args);
}

Result<Value> Evaluator::Call(const Value& callee, const CallArguments& args) {
  if (callee.is_undefined()) {
    const auto& message = callee.undefined().message;
    return Fail(Code::kUnsupported,
                (message == nullptr ? std::string("the value is undefined") : *message) +
                    ", so it can't be called");
  }
  if (callee.is_loop()) {
    return CallLoop(*callee.loop(), args);
  }
  if (!callee.is_callable()) {
    return Raise("'" + std::string(TypeName(callee)) + "' object is not callable");
  }
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): what it calls may let go of it
  const CallableRef callable = callee.callable();
  switch (callable->kind) {
    case Callable::Kind::kMacro: return CallMacro(*callable, args);
    case Callable::Kind::kFunction:
    case Callable::Kind::kMethod: return CallBuiltin(*callable->builtin, callable->self, args);
    case Callable::Kind::kCycler: break;
    case Callable::Kind::kJoiner:
      return callable->position++ == 0 ? Value::String("") : callable->items[0];
  }
  return Raise("'Cycler' object is not callable");
}

Result<Value> Evaluator::CallLoop(const LoopState& loop, const CallArguments& args) {
  if (loop.stmt == nullptr) {
    return Raise("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (args.positional.size() != 1 || !args.keywords.empty()) {
    return Raise("loop() takes one argument");
  }
  const Budget::Level level(budget_);
  TRY(level.Check());
  TextBuilder captured;
  TextBuilder* outer_out = std::exchange(out_, &captured);
  std::shared_ptr<Scope> scope = loop.scope;
  std::swap(scope_, scope);
  Flow flow = Flow::kNext;
  const Result<void> status = RunLoop(*loop.stmt, args.positional[0], loop.depth0 + 1, &flow);
  std::swap(scope_, scope);
  out_ = outer_out;
  TRY(status);
  return MakeText(budget_, captured.Take());
}

Result<Value> Evaluator::CallMacro(const Callable& macro, const CallArguments& args) {
  const Budget::Level level(budget_);
  TRY(level.Check());
  TRY(budget_.Scan(macro.macro->name.size()));
  auto scope = std::make_shared<Scope>();
  scope->parent = macro.scope;
  scope->depth = macro.scope->depth + 1;
  if (scope->depth > limits::kTemplateEvalDepthMax) {
    return Fail(Code::kPayloadTooLarge,
                "macros are defined in macros deeper than "
                "kTemplateEvalDepthMax (" +
                    std::to_string(limits::kTemplateEvalDepthMax) + ")");
  }
  std::swap(scope_, scope);
  const Result<void> bound = BindMacro(*macro.macro, args);
  std::swap(scope_, scope);
  TRY(bound);
  return Capture(macro.macro->body, std::move(scope));
}

Result<void> Evaluator::BindMacro(const MacroDef& macro, const CallArguments& args) {
  // Every parameter looks through the keywords.
  TRY(budget_.Pieces(macro.parameters.size() * args.keywords.size()));
  std::vector<bool> is_used(args.keywords.size(), false);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Value* given = i < args.positional.size() ? &args.positional[i] : nullptr;
    const std::string& name = template_.names[macro.parameters[i]];
    for (size_t k = 0; k < args.keywords.size() && given == nullptr; ++k) {
      if (!is_used[k] && args.keywords[k].first == name) {
        given = &args.keywords[k].second;
        is_used[k] = true;
      }
    }
    TRY(BindParameter(macro, i, given));
  }
  return BindExtras(macro, args, is_used);
}

Result<void> Evaluator::BindParameter(const MacroDef& macro, size_t i, const Value* given) {
  const Symbol symbol = macro.parameters[i];
  Value value;
  const size_t first_default = macro.parameters.size() - macro.defaults.size();
  if (given != nullptr) {
    value = *given;
  } else if (i >= first_default) {
    TRY_ASSIGN(value, Eval(*macro.defaults[i - first_default]));
  } else {
    TRY(budget_.Scan(template_.names[symbol].size()));
    value = Value::MakeUndefined("parameter '" + template_.names[symbol] + "' was not provided");
  }
  return Assign(Target{Target::Kind::kName, 0, symbol, {}, {}}, value);
}

// caller, kwargs and varargs, which a macro gets only if it mentions them.
Result<void> Evaluator::BindExtras(const MacroDef& macro, const CallArguments& args,
                                   const std::vector<bool>& is_used) {
  const auto assign = [&](Symbol symbol, const Value& value) {
    return Assign(Target{Target::Kind::kName, 0, symbol, {}, {}}, value);
  };
  const std::string shown = macro.name.empty() ? "None" : "'" + macro.name + "'";
  Value caller = Value::MakeUndefined("No caller defined");
  std::vector<Dict::Entry> rest;
  for (size_t k = 0; k < args.keywords.size(); ++k) {
    const auto& [name, value] = args.keywords[k];
    if (is_used[k]) {
      continue;
    }
    if (name == "caller" && macro.uses_caller) {
      caller = value;
    } else if (macro.uses_kwargs) {
      rest.emplace_back(Value::String(name), value);
    } else {
      return Raise("macro " + shown + " takes no keyword argument '" + name + "'");
    }
  }
  if (args.positional.size() > macro.parameters.size() && !macro.uses_varargs) {
    return Raise("macro " + shown + " takes not more than " +
                 std::to_string(macro.parameters.size()) + " argument(s)");
  }
  if (macro.uses_caller) {
    TRY(assign(template_.caller, caller));
  }
  if (macro.uses_kwargs) {
    TRY(assign(template_.kwargs, MakeDict(std::move(rest))));
  }
  if (macro.uses_varargs) {
    const size_t taken = std::min(args.positional.size(), macro.parameters.size());
    TRY(assign(template_.varargs,
               MakeList({args.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                         args.positional.end()},
                        List::Form::kTuple)));
  }
  return {};
}

}  // namespace fak::text::jinja

// Methods of dicts, lists, tuples, loops and cyclers; those of texts are in text_methods.cc.

#include "text/jinja/methods.h"

#include <algorithm>

#include "text/jinja/arguments.h"

namespace fak::text::jinja {

namespace {

using Args = BoundArguments;

// ---- dict

template <List::Form kForm>
Result<Value> DictView(Evaluator& evaluator, const Value& self, const Args&) {
  std::vector<Value> items;
  for (const Dict::Entry& entry : self.dict()->entries()) {
    items.push_back(kForm == List::Form::kKeys ? entry.first
                    : kForm == List::Form::kValues
                        ? entry.second
                        : MakeList({entry.first, entry.second}, List::Form::kTuple));
  }
  return MakeListValue(evaluator.budget(), std::move(items), kForm);
}

Result<Value> DictGet(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY(CheckKey(evaluator.budget(), *args[0]));
  const Value* found = self.dict()->Find(*args[0]);
  return found != nullptr ? *found : args[1] != nullptr ? *args[1] : Value::MakeNone();
}

Result<Value> DictCopy(Evaluator& evaluator, const Value& self, const Args&) {
  TRY(evaluator.budget().Steps(self.dict()->entries().size()));
  auto copy = std::make_shared<Dict>(*self.dict());
  copy->is_tracked = false;
  return Value(std::move(copy));
}

Result<Value> DictUpdate(Evaluator& evaluator, const Value& self, const Args& args) {
  evaluator.WillChange(self);
  const CallArguments& all = args.all();
  if (all.positional.size() > 1 || (all.positional.size() == 1 && !all.positional[0].is_dict())) {
    return Raise("update() takes one mapping");
  }
  std::vector<Dict::Entry> entries;
  if (!all.positional.empty()) {
    entries = all.positional[0].dict()->entries();
  }
  for (const auto& [key, value] : all.keywords) {
    entries.emplace_back(Value::String(key), value);
  }
  TRY(evaluator.budget().Steps(entries.size()));
  for (Dict::Entry& entry : entries) {
    TRY(PayForKey(evaluator.budget(), entry.first));
    self.dict()->Set(std::move(entry.first), std::move(entry.second));
  }
  return Value::MakeNone();
}

Result<Value> DictSetDefault(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY(CheckKey(evaluator.budget(), *args[0]));
  if (const Value* found = self.dict()->Find(*args[0])) {
    return *found;
  }
  evaluator.WillChange(self);
  Value value = args[1] == nullptr ? Value::MakeNone() : *args[1];
  self.dict()->Set(*args[0], value);
  return value;
}

Result<Value> DictPop(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY(CheckKey(evaluator.budget(), *args[0]));
  const Value* found = self.dict()->Find(*args[0]);
  if (found == nullptr) {
    if (args[1] == nullptr) {
      TRY_ASSIGN(const Text shown, Repr(evaluator.budget(), *args[0]));
      return Raise("pop(): no key " + shown.bytes);
    }
    return *args[1];
  }
  Value value = *found;
  evaluator.WillChange(self);
  for (const Dict::Entry& entry : self.dict()->entries()) {  // the index is made anew
    TRY(evaluator.budget().Steps(2));
    TRY(PayForKey(evaluator.budget(), entry.first));
  }
  self.dict()->Remove(*args[0]);
  return value;
}

Result<Value> DictClear(Evaluator& evaluator, const Value& self, const Args&) {
  evaluator.WillChange(self);
  self.dict()->clear();
  return Value::MakeNone();
}

constexpr Builtin kDictMethods[] = {
    {"items", "", DictView<List::Form::kItems>},
    {"keys", "", DictView<List::Form::kKeys>},
    {"values", "", DictView<List::Form::kValues>},
    {"get", "key default?", DictGet, Charge::kItself},
    {"copy", "", DictCopy, Charge::kItself},
    {"update", "*", DictUpdate, Charge::kItself},
    {"setdefault", "key default?", DictSetDefault, Charge::kItself},
    {"pop", "key default?", DictPop, Charge::kItself},
    {"clear", "", DictClear, Charge::kItself},
};
constexpr std::string_view kOtherDictMethods[] = {"fromkeys", "popitem"};

// ---- list and tuple

Result<Value> ListCount(Evaluator& evaluator, const Value& self, const Args& args) {
  int64_t count = 0;
  for (const Value& item : self.list()->items) {
    TRY_ASSIGN(const bool is_equal, Equal(evaluator.budget(), item, *args[0]));
    count += is_equal ? 1 : 0;
  }
  return Value(count);
}

Result<Value> ListIndex(Evaluator& evaluator, const Value& self, const Args& args) {
  for (size_t i = 0; i < self.list()->items.size(); ++i) {
    TRY_ASSIGN(const bool is_equal, Equal(evaluator.budget(), self.list()->items[i], *args[0]));
    if (is_equal) {
      return Value(static_cast<int64_t>(i));
    }
  }
  return Raise("the value is not in the list");
}

// Notes the change, and the depth that the new item brings.
void WillTake(Evaluator& evaluator, const Value& self, const Value& item) {
  evaluator.WillChange(self);
  self.list()->depth = std::max(self.list()->depth, 1 + ContainerDepth(item));
}

Result<Value> ListAppend(Evaluator& evaluator, const Value& self, const Args& args) {
  const Value item = *args[0];
  WillTake(evaluator, self, item);
  self.list()->items.push_back(item);
  return Value::MakeNone();
}

Result<Value> ListExtend(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const ListRef more, Iterate(evaluator.budget(), *args[0]));
  TRY(evaluator.budget().Steps(more->items.size()));
  const std::vector<Value> items = more->items;
  for (const Value& item : items) {
    WillTake(evaluator, self, item);
    self.list()->items.push_back(item);
  }
  return Value::MakeNone();
}

Result<Value> ListInsert(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(int64_t at, IntArgument(args[0], 0));
  const auto length = static_cast<int64_t>(self.list()->items.size());
  at = std::clamp<int64_t>(at < 0 ? at + length : at, 0, length);
  const Value item = *args[1];
  WillTake(evaluator, self, item);
  TRY(evaluator.budget().Steps(static_cast<size_t>(length - at) / 8));
  self.list()->items.insert(self.list()->items.begin() + at, item);
  return Value::MakeNone();
}

Result<Value> ListPop(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(int64_t at, IntArgument(args[0], -1));
  std::vector<Value>& items = self.list()->items;
  const auto length = static_cast<int64_t>(items.size());
  at += at < 0 ? length : 0;
  if (at < 0 || at >= length) {
    return Raise(length == 0 ? "pop from empty list" : "pop index out of range");
  }
  evaluator.WillChange(self);
  TRY(evaluator.budget().Steps(static_cast<size_t>(length - at) / 8));
  Value value = items[static_cast<size_t>(at)];
  items.erase(items.begin() + at);
  return value;
}

Result<Value> ListRemove(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const Value at, ListIndex(evaluator, self, args));
  evaluator.WillChange(self);
  TRY(evaluator.budget().Pieces(self.list()->items.size()));
  self.list()->items.erase(self.list()->items.begin() + at.integer());
  return Value::MakeNone();
}

Result<Value> ListReverse(Evaluator& evaluator, const Value& self, const Args&) {
  evaluator.WillChange(self);
  TRY(evaluator.budget().Steps(self.list()->items.size()));
  std::reverse(self.list()->items.begin(), self.list()->items.end());
  return Value::MakeNone();
}

Result<Value> ListClear(Evaluator& evaluator, const Value& self, const Args&) {
  evaluator.WillChange(self);
  self.list()->items.clear();
  return Value::MakeNone();
}

Result<Value> ListCopy(Evaluator& evaluator, const Value& self, const Args&) {
  TRY(evaluator.budget().Steps(self.list()->items.size()));
  return MakeList(self.list()->items);
}

constexpr Builtin kTupleMethods[] = {
    {"count", "value", ListCount, Charge::kItself},
    {"index", "value", ListIndex, Charge::kItself},
};
constexpr Builtin kListMethods[] = {
    {"append", "object", ListAppend, Charge::kItself},
    {"extend", "iterable", ListExtend, Charge::kItself},
    {"insert", "index object", ListInsert, Charge::kItself},
    {"pop", "index?", ListPop, Charge::kItself},
    {"remove", "value", ListRemove, Charge::kItself},
    {"reverse", "", ListReverse, Charge::kItself},
    {"clear", "", ListClear, Charge::kItself},
    {"copy", "", ListCopy, Charge::kItself},
};
constexpr std::string_view kOtherListMethods[] = {"sort"};

// ---- loop and cycler

Result<Value> LoopCycle(Evaluator&, const Value& self, const Args& args) {
  const std::vector<Value>& items = args.all().positional;
  if (items.empty()) {
    return Raise("no items for cycling given");
  }
  return items[self.loop()->index % items.size()];
}

Result<Value> LoopChanged(Evaluator& evaluator, const Value& self, const Args& args) {
  LoopState& loop = *self.loop();
  const std::vector<Value>& now = args.all().positional;
  bool is_same = loop.was_changed_called && now.size() == loop.changed.size();
  for (size_t i = 0; i < now.size() && is_same; ++i) {
    TRY_ASSIGN(is_same, Equal(evaluator.budget(), now[i], loop.changed[i]));
  }
  evaluator.WillChange(self);
  loop.was_changed_called = true;
  loop.changed = now;
  for (const Value& value : now) {
    loop.container_depth = std::max(loop.container_depth, 1 + ContainerDepth(value));
  }
  return Value(!is_same);
}

Result<Value> CyclerNext(Evaluator&, const Value& self, const Args&) {
  Callable& cycler = *self.callable();
  Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

Result<Value> CyclerReset(Evaluator&, const Value& self, const Args&) {
  self.callable()->position = 0;
  return Value::MakeNone();
}

constexpr Builtin kLoopMethods[] = {
    {"cycle", "*", LoopCycle, Charge::kItself},
    {"changed", "*", LoopChanged, Charge::kItself},
};
constexpr Builtin kCyclerMethods[] = {
    {"next", "", CyclerNext, Charge::kItself},
    {"reset", "", CyclerReset, Charge::kItself},
};

template <size_t kCount>
bool Has(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

const Builtin* FindMethod(const Value& self, std::string_view name, bool* is_known) {
  *is_known = false;
  if (self.is_string()) {
    return FindTextMethod(name, is_known);
  }
  if (self.is_dict()) {
    *is_known = Has(kOtherDictMethods, name);
    return FindIn(kDictMethods, name);
  }
  if (self.is_list() && self.list()->form <= List::Form::kRange) {
    const bool is_list = self.list()->form == List::Form::kList;
    *is_known = is_list && Has(kOtherListMethods, name);
    const Builtin* found = FindIn(kTupleMethods, name);
    return found != nullptr || !is_list ? found : FindIn(kListMethods, name);
  }
  if (self.is_loop()) {
    return FindIn(kLoopMethods, name);
  }
  if (self.is_callable() && self.callable()->kind == Callable::Kind::kCycler) {
    return FindIn(kCyclerMethods, name);
  }
  return nullptr;
}

}  // namespace fak::text::jinja

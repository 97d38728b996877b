// Filters on sequences and mappings.

#include <algorithm>
#include <set>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"

namespace fak::text::jinja {

namespace {

using Args = BoundArguments;

Value MakeIterator(std::vector<Value> items) {
  return MakeList(std::move(items), List::Form::kIterator);
}

// Reads "a.b.0" (or an index) of values as jinja2's attribute getters do: items before attributes.
class AttributePath {
 public:
  static Result<AttributePath> Parse(Budget& budget, const Value* maybe_attribute) {
    AttributePath path;
    if (!IsGiven(maybe_attribute)) {
      return path;
    }
    if (!maybe_attribute->is_string()) {
      path.parts_.push_back(*maybe_attribute);
      return path;
    }
    TRY(budget.Steps(maybe_attribute->text().bytes.size()));
    const Text dot{".", {}, false};
    for (const Text& part : Split(maybe_attribute->text(), &dot, -1)) {
      const bool is_index = !part.bytes.empty() && part.bytes.size() < 10 &&
                            part.bytes.find_first_not_of("0123456789") == std::string::npos;
      path.parts_.push_back(is_index ? Value(int64_t{std::stol(part.bytes)})
                                     : Value::String(part.bytes));
    }
    return path;
  }

  Result<Value> Get(Evaluator& evaluator, Value value, const Value* maybe_default = nullptr) const {
    for (const Value& part : parts_) {
      TRY(evaluator.budget().Steps());
      TRY_ASSIGN(value, evaluator.GetItem(value, part));
      if (value.is_undefined() && maybe_default != nullptr) {
        value = *maybe_default;
      }
    }
    return value;
  }

 private:
  std::vector<Value> parts_;
};

Result<Value> FoldCase(Budget& budget, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) {
    return value;
  }
  TRY(budget.Decode(value.text().bytes.size()));
  return MakeText(budget, MapCase(value.text(), CaseOf::kLower));
}

Result<Value> FilterLength(Evaluator&, const Value& self, const Args&) {
  return Length(self).map([](int64_t length) { return Value(length); });
}

Result<Value> FilterJoin(Evaluator& evaluator, const Value& self, const Args& args) {
  Budget& budget = evaluator.budget();
  TextRef separator = std::make_shared<const Text>();
  if (args[0] != nullptr) {
    TRY_ASSIGN(separator, Str(budget, *args[0]));
  }
  if (!IsGiven(args[1])) {
    return JoinTexts(budget, *separator, self, true);
  }
  TRY_ASSIGN(const AttributePath path, AttributePath::Parse(evaluator.budget(), args[1]));
  TRY_ASSIGN(const ListRef list, Iterate(budget, self));
  std::vector<Value> items;
  for (const Value& item : list->items) {
    TRY_ASSIGN(Value value, path.Get(evaluator, item));
    items.push_back(std::move(value));
  }
  return JoinTexts(budget, *separator, MakeList(std::move(items)), true);
}

Result<Value> FilterFirst(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  return list->items.empty() ? Value::MakeUndefined("No first item, sequence was empty.")
                             : list->items.front();
}

Result<Value> FilterLast(Evaluator& evaluator, const Value& self, const Args&) {
  if (self.is_list() && self.list()->form == List::Form::kIterator) {
    return Raise("'generator' object is not reversible");
  }
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  return list->items.empty() ? Value::MakeUndefined("No last item, sequence was empty.")
                             : list->items.back();
}

Result<Value> FilterList(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  return MakeListValue(evaluator.budget(), list->items);
}

Result<Value> FilterItems(Evaluator& evaluator, const Value& self, const Args&) {
  if (self.is_undefined()) {
    return MakeIterator({});
  }
  if (!self.is_dict()) {
    return Raise("Can only get item pairs from a mapping.");
  }
  std::vector<Value> pairs;
  for (const Dict::Entry& entry : self.dict()->entries()) {
    pairs.push_back(MakeList({entry.first, entry.second}, List::Form::kTuple));
  }
  TRY(evaluator.budget().Steps(pairs.size()));
  return MakeIterator(std::move(pairs));
}

Result<Value> FilterReverse(Evaluator& evaluator, const Value& self, const Args&) {
  if (self.is_string()) {
    return Slice(evaluator.budget(), self, Value::MakeNone(), Value::MakeNone(),
                 Value(int64_t{-1}));
  }
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  return MakeIterator({list->items.rbegin(), list->items.rend()});
}

Result<Value> Sorted(Budget& budget, std::vector<Keyed> items, bool reverse) {
  TRY(SortByKey(budget, items, reverse));
  std::vector<Value> values;
  for (Keyed& item : items) {
    values.push_back(std::move(item.value));
  }
  return MakeListValue(budget, std::move(values));
}

Result<Value> FilterDictSort(Evaluator& evaluator, const Value& self, const Args& args) {
  const bool case_sensitive = BoolArgument(args[0], false);
  const std::string by = args[1] != nullptr && args[1]->is_string() ? args[1]->text().bytes : "key";
  if (by != "key" && by != "value") {
    return Raise("You can only sort by either \"key\" or \"value\"");
  }
  if (self.is_undefined()) {
    return RaiseUndefined(self);
  }
  if (!self.is_dict()) {
    return Raise("'" + std::string(TypeName(self)) + "' object has no attribute 'items'");
  }
  std::vector<Keyed> items;
  for (const Dict::Entry& entry : self.dict()->entries()) {
    TRY_ASSIGN(Value key, FoldCase(evaluator.budget(), by == "key" ? entry.first : entry.second,
                                   case_sensitive));
    items.push_back({std::move(key), MakeList({entry.first, entry.second}, List::Form::kTuple)});
  }
  return Sorted(evaluator.budget(), std::move(items), BoolArgument(args[2], false));
}

// sort(reverse, case_sensitive, attribute); the attribute may be several, "a,b".
Result<Value> FilterSort(Evaluator& evaluator, const Value& self, const Args& args) {
  const bool case_sensitive = BoolArgument(args[1], false);
  std::vector<AttributePath> paths;
  if (args[2] != nullptr && args[2]->is_string()) {
    TRY(evaluator.budget().Steps(args[2]->text().bytes.size()));
    const Text comma{",", {}, false};
    for (Text& part : Split(args[2]->text(), &comma, -1)) {
      const Value attribute(std::move(part));
      TRY_ASSIGN(AttributePath path, AttributePath::Parse(evaluator.budget(), &attribute));
      paths.push_back(std::move(path));
    }
  } else {
    TRY_ASSIGN(AttributePath path, AttributePath::Parse(evaluator.budget(), args[2]));
    paths.push_back(std::move(path));
  }
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  std::vector<Keyed> items;
  for (const Value& item : list->items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      TRY_ASSIGN(const Value part, path.Get(evaluator, item));
      TRY_ASSIGN(Value folded, FoldCase(evaluator.budget(), part, case_sensitive));
      key.push_back(std::move(folded));
    }
    items.push_back({MakeList(std::move(key)), item});
  }
  return Sorted(evaluator.budget(), std::move(items), BoolArgument(args[0], false));
}

Result<Value> FilterUnique(Evaluator& evaluator, const Value& self, const Args& args) {
  struct Order {
    bool operator()(const Value& a, const Value& b) const { return KeyLess(a, b); }
  };
  TRY_ASSIGN(const AttributePath path, AttributePath::Parse(evaluator.budget(), args[1]));
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  std::set<Value, Order> seen;
  std::vector<Value> kept;
  for (const Value& item : list->items) {
    TRY_ASSIGN(const Value part, path.Get(evaluator, item));
    TRY_ASSIGN(Value key, FoldCase(evaluator.budget(), part, BoolArgument(args[0], false)));
    TRY(CheckKey(evaluator.budget(), key));
    if (seen.insert(std::move(key)).second) {
      kept.push_back(item);
    }
  }
  return MakeIterator(std::move(kept));
}

template <bool kIsMax>
Result<Value> FilterExtreme(Evaluator& evaluator, const Value& self, const Args& args) {
  const bool case_sensitive = BoolArgument(args[0], false);
  TRY_ASSIGN(const AttributePath path, AttributePath::Parse(evaluator.budget(), args[1]));
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  Value best = Value::MakeUndefined("No aggregated item, sequence was empty.");
  Value best_key;
  bool is_first = true;
  for (const Value& item : list->items) {
    TRY_ASSIGN(const Value part, path.Get(evaluator, item));
    TRY_ASSIGN(const Value key, FoldCase(evaluator.budget(), part, case_sensitive));
    bool is_better = is_first;
    if (!is_first) {
      TRY_ASSIGN(is_better, kIsMax ? Less(evaluator.budget(), best_key, key)
                                   : Less(evaluator.budget(), key, best_key));
    }
    if (is_better) {
      best = item;
      best_key = key;
    }
    is_first = false;
  }
  return best;
}

Result<Value> FilterSum(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const AttributePath path, AttributePath::Parse(evaluator.budget(), args[0]));
  Value sum = args[1] == nullptr ? Value(int64_t{0}) : *args[1];
  if (sum.is_string()) {
    return Raise("sum() can't sum strings [use ''.join(seq) instead]");
  }
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  for (const Value& item : list->items) {
    TRY_ASSIGN(const Value part, path.Get(evaluator, item));
    TRY_ASSIGN(sum, Arithmetic(evaluator.budget(), Operator::kAdd, sum, part));
  }
  return sum;
}

Result<Value> FilterBatch(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const int64_t width, IntArgument(args[0], 0));
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : list->items) {
    if (static_cast<int64_t>(batch.size()) == width) {
      batches.push_back(MakeList(std::exchange(batch, {})));
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (IsGiven(args[1])) {
      const auto missing = std::max<int64_t>(width - static_cast<int64_t>(batch.size()), 0);
      TRY(evaluator.budget().Steps(static_cast<size_t>(missing)));
      batch.insert(batch.end(), static_cast<size_t>(missing), *args[1]);
    }
    batches.push_back(MakeList(std::move(batch)));
  }
  return MakeIterator(std::move(batches));
}

Result<Value> FilterSlice(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const int64_t count, IntArgument(args[0], 1));
  if (count <= 0) {
    return Raise("slice() needs a positive number of slices");
  }
  TRY(evaluator.budget().Steps(static_cast<size_t>(count)));
  TRY_ASSIGN(const ListRef list, Iterate(evaluator.budget(), self));
  const auto slices = static_cast<size_t>(count);
  const size_t each = list->items.size() / slices;
  const size_t longer = list->items.size() % slices;
  std::vector<Value> result;
  auto at = list->items.begin();
  for (size_t i = 0; i < slices; ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> slice(at, end);
    at = end;
    if (IsGiven(args[1]) && i >= longer) {
      slice.push_back(*args[1]);
    }
    result.push_back(MakeList(std::move(slice)));
  }
  return MakeIterator(std::move(result));
}

// The name of a filter or test in the arguments at `at`; what follows it is for that one.
Result<std::string> NameAt(const CallArguments& all, size_t at, std::string_view what) {
  if (all.positional.size() <= at || !all.positional[at].is_string()) {
    return Raise(std::string(what) + " requires a name");
  }
  return all.positional[at].text().bytes;
}

CallArguments After(const CallArguments& all, size_t count) {
  CallArguments rest;
  rest.positional.assign(all.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         all.positional.end());
  rest.keywords = all.keywords;
  return rest;
}

// map(attribute=..., default=...) or map(filter, its arguments).
Result<Value> FilterMap(Evaluator& evaluator, const Value& self, const Args& args) {
  const CallArguments& all = args.all();
  const auto keyword = [&](std::string_view name) -> const Value* {
    const auto found = std::find_if(all.keywords.begin(), all.keywords.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    return found == all.keywords.end() ? nullptr : &found->second;
  };
  const Value* attribute = all.positional.empty() ? keyword("attribute") : nullptr;
  std::vector<Value> mapped;
  TRY_ASSIGN(const ListRef list, Truthy(self) ? Iterate(evaluator.budget(), self)
                                              : Result<ListRef>(std::make_shared<List>()));
  if (attribute != nullptr) {
    TRY_ASSIGN(const AttributePath path, AttributePath::Parse(evaluator.budget(), attribute));
    const Value* otherwise = IsGiven(keyword("default")) ? keyword("default") : nullptr;
    if (all.keywords.size() > (keyword("default") == nullptr ? 1 : 2)) {
      return Raise("map() got an unexpected keyword argument");
    }
    for (const Value& item : list->items) {
      TRY_ASSIGN(Value value, path.Get(evaluator, item, otherwise));
      mapped.push_back(std::move(value));
    }
    return MakeIterator(std::move(mapped));
  }
  TRY_ASSIGN(const std::string name, NameAt(all, 0, "map()"));
  const CallArguments rest = After(all, 1);
  for (const Value& item : list->items) {
    TRY_ASSIGN(Value value, evaluator.ApplyFilter(name, item, rest));
    mapped.push_back(std::move(value));
  }
  return MakeIterator(std::move(mapped));
}

// select, reject, selectattr and rejectattr: items for which a test holds, or doesn't.
template <bool kWanted, bool kByAttribute>
Result<Value> FilterSelect(Evaluator& evaluator, const Value& self, const Args& args) {
  const CallArguments& all = args.all();
  constexpr size_t kBefore = kByAttribute ? 1 : 0;
  if (all.positional.size() < kBefore) {
    return Raise("Missing parameter for attribute name");
  }
  TRY_ASSIGN(const AttributePath path,
             AttributePath::Parse(evaluator.budget(), kByAttribute ? &all.positional[0] : nullptr));
  std::string test;
  CallArguments rest;
  if (all.positional.size() > kBefore) {
    TRY_ASSIGN(test, NameAt(all, kBefore, "a test"));
    rest = After(all, kBefore + 1);
  }
  TRY_ASSIGN(const ListRef list, Truthy(self) ? Iterate(evaluator.budget(), self)
                                              : Result<ListRef>(std::make_shared<List>()));
  std::vector<Value> kept;
  for (const Value& item : list->items) {
    TRY_ASSIGN(Value value, path.Get(evaluator, item));
    if (!test.empty()) {
      TRY_ASSIGN(value, evaluator.ApplyTest(test, value, rest));
    }
    if (Truthy(value) == kWanted) {
      kept.push_back(item);
    }
  }
  return MakeIterator(std::move(kept));
}

constexpr Builtin kFilters[] = {
    {"batch", "linecount fill_with?", FilterBatch},
    {"count", "", FilterLength, Charge::kScan},
    {"dictsort", "case_sensitive? by? reverse?", FilterDictSort},
    {"first", "", FilterFirst, Charge::kItself},
    {"items", "", FilterItems},
    {"join", "d? attribute?", FilterJoin, Charge::kItself},
    {"last", "", FilterLast, Charge::kItself},
    {"length", "", FilterLength, Charge::kScan},
    {"list", "", FilterList},
    {"map", "*", FilterMap},
    {"max", "case_sensitive? attribute?", FilterExtreme<true>},
    {"min", "case_sensitive? attribute?", FilterExtreme<false>},
    {"reject", "*", FilterSelect<false, false>},
    {"rejectattr", "*", FilterSelect<false, true>},
    {"reverse", "", FilterReverse},
    {"select", "*", FilterSelect<true, false>},
    {"selectattr", "*", FilterSelect<true, true>},
    {"slice", "slices fill_with?", FilterSlice},
    {"sort", "reverse? case_sensitive? attribute?", FilterSort},
    {"sum", "attribute? start?", FilterSum},
    {"unique", "case_sensitive? attribute?", FilterUnique},
};

}  // namespace

Result<Value> JoinTexts(Budget& budget, const Text& separator, const Value& items, bool converts) {
  TRY_ASSIGN(const ListRef list, Iterate(budget, items));
  TRY(budget.Steps(list->items.size()));
  TextBuilder builder;
  for (size_t i = 0; i < list->items.size(); ++i) {
    const Value& item = list->items[i];
    if (!converts && !item.is_string()) {
      return Raise("sequence item " + std::to_string(i) + ": expected str instance, " +
                   std::string(TypeName(item)) + " found");
    }
    TRY_ASSIGN(const TextRef text, Str(budget, item));
    if (i > 0) {
      builder.Append(separator);
    }
    TRY(budget.CheckSize(builder.size() + text->bytes.size()));
    builder.Append(*text);
  }
  return MakeText(budget, builder.Take());
}

std::vector<Builtin> AllSequenceFilters() {
  return {std::begin(kFilters), std::end(kFilters)};
}

const Builtin* FindSequenceFilter(std::string_view name) {
  return FindIn(kFilters, name);
}

}  // namespace fak::text::jinja

#include "text/jinja/operations.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/merge_sort.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

namespace {

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

Result<bool> EqualLists(Budget& budget, const List& a, const List& b) {
  const bool is_sequence = a.form == List::Form::kList || a.form == List::Form::kTuple ||
                           a.form == List::Form::kRange || a.form == List::Form::kKeys;
  if (a.form != b.form || !is_sequence) {
    return &a == &b;
  }
  if (a.items.size() != b.items.size()) {
    return false;
  }
  for (size_t i = 0; i < a.items.size() && i < b.items.size(); ++i) {
    TRY_ASSIGN(const bool is_equal, Equal(budget, a.items[i], b.items[i]));
    if (!is_equal) {
      return false;
    }
  }
  return true;
}

Result<bool> EqualDicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) {
    return false;
  }
  for (const Dict::Entry& entry : a.entries()) {
    TRY(PayForKey(budget, entry.first));
    const Value* other = b.Find(entry.first);
    if (other == nullptr) {
      return false;
    }
    TRY_ASSIGN(const bool is_equal, Equal(budget, entry.second, *other));
    if (!is_equal) {
      return false;
    }
  }
  return true;
}

// Pays for the digits of large integers, which are read anew each time.
Status PayForDigits(Budget& budget, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_big_int()) {
      TRY(budget.Decode(value->big_int().digits->size()));
    }
  }
  return {};
}

bool EqualNumbers(const Value& a, const Value& b) {
  int64_t x = 0;
  int64_t y = 0;
  if (a.AsInt(&x) && b.AsInt(&y)) {
    return x == y;
  }
  if (a.is_big_int() && b.is_big_int()) {
    return *a.big_int().digits == *b.big_int().digits;
  }
  double p = 0;
  double q = 0;
  a.AsDouble(&p);
  b.AsDouble(&q);
  return p == q;
}

tl::unexpected<Error> RaiseOrder(std::string_view op, const Value& a, const Value& b) {
  return Raise(Quoted(op) + " not supported between instances of " + Quoted(TypeName(a)) + " and " +
               Quoted(TypeName(b)));
}

Result<bool> LessLists(Budget& budget, const List& a, const List& b) {
  for (size_t i = 0; i < a.items.size() && i < b.items.size(); ++i) {
    TRY_ASSIGN(const bool is_equal, Equal(budget, a.items[i], b.items[i]));
    if (!is_equal) {
      return Less(budget, a.items[i], b.items[i]);
    }
  }
  return a.items.size() < b.items.size();
}

bool AreComparableLists(const Value& a, const Value& b) {
  return a.is_list() && b.is_list() && a.list()->form == b.list()->form &&
         (a.list()->form == List::Form::kList || a.list()->form == List::Form::kTuple);
}

bool CanOrder(const Value& a, const Value& b) {
  return (a.is_number() && b.is_number()) || (a.is_string() && b.is_string()) ||
         AreComparableLists(a, b);
}

}  // namespace

bool Truthy(const Value& value) {
  if (value.is_bool()) {
    return value.boolean();
  }
  if (value.is_none() || value.is_undefined()) {
    return false;
  }
  if (value.is_int()) {
    return value.integer() != 0;
  }
  if (value.is_float()) {
    return value.real() != 0;
  }
  if (value.is_string()) {
    return !value.text().bytes.empty();
  }
  if (value.is_list()) {
    return value.list()->form == List::Form::kIterator || !value.list()->items.empty();
  }
  return !value.is_dict() || !value.dict()->entries().empty();
}

tl::unexpected<Error> RaiseUndefined(const Value& value) {
  const auto& message = value.undefined().message;
  return Raise(message == nullptr ? "the value is undefined" : *message);
}

Result<bool> Equal(Budget& budget, const Value& a, const Value& b) {
  const Budget::Level level(budget);
  TRY(level.Check());
  TRY(budget.Steps());
  if (a.is_number() && b.is_number()) {
    TRY(PayForDigits(budget, a, b));
    return EqualNumbers(a, b);
  }
  if (a.is_string() && b.is_string()) {
    TRY(budget.Scan(std::min(a.text().bytes.size(), b.text().bytes.size())));
    return a.text().bytes == b.text().bytes;
  }
  if (a.is_list() && b.is_list()) {
    return EqualLists(budget, *a.list(), *b.list());
  }
  if (a.is_dict() && b.is_dict()) {
    return EqualDicts(budget, *a.dict(), *b.dict());
  }
  return a.IsSame(b);
}

Result<bool> Less(Budget& budget, const Value& a, const Value& b) {
  const Budget::Level level(budget);
  TRY(level.Check());
  TRY(budget.Steps());
  if (a.is_number() && b.is_number()) {
    int64_t x = 0;
    int64_t y = 0;
    if (a.AsInt(&x) && b.AsInt(&y)) {
      return x < y;
    }
    TRY(PayForDigits(budget, a, b));
    double p = 0;
    double q = 0;
    a.AsDouble(&p);
    b.AsDouble(&q);
    return p < q;
  }
  if (a.is_string() && b.is_string()) {
    TRY(budget.Scan(std::min(a.text().bytes.size(), b.text().bytes.size())));
    return a.text().bytes < b.text().bytes;
  }
  if (AreComparableLists(a, b)) {
    return LessLists(budget, *a.list(), *b.list());
  }
  if (a.is_undefined() || b.is_undefined()) {
    return RaiseUndefined(a.is_undefined() ? a : b);
  }
  return RaiseOrder("<", a, b);
}

Result<bool> Compare(Budget& budget, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual: return Equal(budget, a, b);
    case Operator::kNotEqual: return Equal(budget, a, b).map([](bool equal) { return !equal; });
    case Operator::kIn: return Contains(budget, b, a);
    case Operator::kNotIn: return Contains(budget, b, a).map([](bool has) { return !has; });
    default: break;
  }
  if (a.is_undefined() || b.is_undefined()) {
    return RaiseUndefined(a.is_undefined() ? a : b);
  }
  const bool is_swapped = op == Operator::kGreater || op == Operator::kLessEqual;
  if (!CanOrder(a, b)) {
    return RaiseOrder(op == Operator::kLess        ? "<"
                      : op == Operator::kLessEqual ? "<="
                      : op == Operator::kGreater   ? ">"
                                                   : ">=",
                      a, b);
  }
  TRY_ASSIGN(const bool is_less, is_swapped ? Less(budget, b, a) : Less(budget, a, b));
  if (op == Operator::kLess || op == Operator::kGreater) {
    return is_less;
  }
  // a <= b is not (b < a), but for NaN.
  double x = 0;
  double y = 0;
  const bool is_nan = (a.AsDouble(&x) && std::isnan(x)) || (b.AsDouble(&y) && std::isnan(y));
  return !is_nan && !is_less;
}

Result<bool> Contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return Raise("'in <string>' requires string as left operand, not " +
                   std::string(TypeName(item)));
    }
    TRY(budget.Scan(container.text().bytes.size()));
    return FindBytes(container.text().bytes, item.text().bytes) != std::string_view::npos;
  }
  if (container.is_dict()) {
    TRY(CheckKey(budget, item));
    return container.dict()->Find(item) != nullptr;
  }
  if (container.is_list() || container.is_undefined()) {
    TRY_ASSIGN(const ListRef list, Iterate(budget, container));
    for (size_t i = 0; i < list->items.size(); ++i) {
      TRY_ASSIGN(const bool is_equal, Equal(budget, list->items[i], item));
      if (is_equal || list->items[i].IsSame(item)) {
        return true;
      }
    }
    return false;
  }
  return Raise("argument of type " + Quoted(TypeName(container)) + " is not iterable");
}

Result<int64_t> Length(const Value& value) {
  if (value.is_string()) {
    return CodePoints(value.text().bytes);
  }
  if (value.is_list() && value.list()->form != List::Form::kIterator) {
    return static_cast<int64_t>(value.list()->items.size());
  }
  if (value.is_dict()) {
    return static_cast<int64_t>(value.dict()->entries().size());
  }
  if (value.is_undefined()) {
    return 0;
  }
  return Raise("object of type " + Quoted(TypeName(value)) + " has no len()");
}

Result<ListRef> Iterate(Budget& budget, const Value& value) {
  if (value.is_list() && value.list()->form != List::Form::kIterator) {
    return value.list();
  }
  auto list = std::make_shared<List>();
  if (value.is_list()) {
    List& iterator = *value.list();
    list->items.assign(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                       iterator.items.end());
    list->depth = iterator.depth;
    iterator.next = iterator.items.size();
  } else if (value.is_string()) {
    TRY(budget.Steps(value.text().bytes.size()));
    for (Text& character : Characters(value.text())) {
      list->items.emplace_back(std::move(character));
    }
  } else if (value.is_dict()) {
    for (const Dict::Entry& entry : value.dict()->entries()) {
      list->items.push_back(entry.first);
    }
  } else if (!value.is_undefined()) {
    return Raise(Quoted(TypeName(value)) + " object is not iterable");
  }
  TRY(budget.Steps(list->items.size()));
  return list;
}

namespace {

Result<int64_t> AsIndex(const Value& value) {
  int64_t index = 0;
  if (!value.AsInt(&index)) {
    return Raise("slice indices must be integers or None or have an __index__ method");
  }
  return index;
}

// Python's normalisation of slice bounds: how many elements, and the first.
struct SliceRange {
  int64_t start = 0;
  int64_t count = 0;
  int64_t step = 1;
};

Result<SliceRange> NormalizeSlice(int64_t length, const Value& start, const Value& stop,
                                  const Value& step) {
  SliceRange range;
  if (!step.is_none()) {
    TRY_ASSIGN(range.step, AsIndex(step));
  }
  if (range.step == 0) {
    return Raise("slice step cannot be zero");
  }
  const bool is_down = range.step < 0;
  const int64_t lowest = is_down ? -1 : 0;
  const int64_t highest = is_down ? length - 1 : length;
  const auto bound = [&](const Value& value, int64_t absent) -> Result<int64_t> {
    if (value.is_none()) {
      return absent;
    }
    TRY_ASSIGN(int64_t index, AsIndex(value));
    index = index < 0 ? std::max(index + length, lowest) : index;
    return std::min(index, highest);
  };
  TRY_ASSIGN(range.start, bound(start, is_down ? highest : lowest));
  TRY_ASSIGN(const int64_t end, bound(stop, is_down ? lowest : highest));
  range.step = std::clamp(range.step, -length - 1, length + 1);  // as far as any step gets
  const int64_t span = is_down ? range.start - end : end - range.start;
  const int64_t width = is_down ? -range.step : range.step;
  range.count = span <= 0 ? 0 : (span - 1) / width + 1;
  return range;
}

}  // namespace

Result<Value> Slice(Budget& budget, const Value& object, const Value& start, const Value& stop,
                    const Value& step) {
  for (const Value* part : {&object, &start, &stop, &step}) {
    if (part->is_undefined()) {
      return RaiseUndefined(*part);
    }
  }
  if (object.is_string()) {
    const size_t bytes = object.text().bytes.size();
    TRY(budget.Scan(bytes));
    TRY_ASSIGN(const int64_t length, Length(object));
    TRY_ASSIGN(const SliceRange range, NormalizeSlice(length, start, stop, step));
    TRY(range.step == 1 ? Status{} : budget.Decode(bytes));
    return MakeText(budget, SliceText(object.text(), range.start, range.count, range.step));
  }
  const bool can_slice = object.is_list() && (object.list()->form == List::Form::kList ||
                                              object.list()->form == List::Form::kTuple ||
                                              object.list()->form == List::Form::kRange);
  if (!can_slice) {
    return Raise(object.is_dict() ? "unhashable type: 'slice'"
                                  : Quoted(TypeName(object)) + " object is not subscriptable");
  }
  const List& list = *object.list();
  TRY_ASSIGN(const SliceRange range,
             NormalizeSlice(static_cast<int64_t>(list.items.size()), start, stop, step));
  TRY(budget.Steps(static_cast<size_t>(range.count)));
  std::vector<Value> items;
  for (int64_t i = 0; i < range.count; ++i) {
    items.push_back(list.items[static_cast<size_t>(range.start + i * range.step)]);
  }
  return MakeList(std::move(items),
                  list.form == List::Form::kTuple ? List::Form::kTuple : List::Form::kList);
}

Status PayForKey(Budget& budget, const Value& key) {
  constexpr size_t kComparisons = 16;  // of a small dict in order, of a large one down its index
  if (key.is_string()) {
    return budget.Scan(key.text().bytes.size());
  }
  if (key.is_big_int()) {
    return budget.Decode(key.big_int().digits->size());
  }
  if (key.is_list()) {
    const Budget::Level level(budget);
    TRY(level.Check());
    for (const Value& item : key.list()->items) {
      TRY(budget.Steps(kComparisons));
      TRY(PayForKey(budget, item));
    }
  }
  return {};
}

Status CheckKey(Budget& budget, const Value& key) {
  TRY(PayForKey(budget, key));
  if (!IsHashable(key)) {
    return Raise("unhashable type: " + Quoted(TypeName(key)));
  }
  return {};
}

Result<std::optional<Value>> Subscript(Budget& budget, const Value& object, const Value& key) {
  int64_t index = 0;
  if (object.is_dict()) {
    const Value* found = IsHashable(key) ? object.dict()->Find(key) : nullptr;
    return found == nullptr ? std::optional<Value>() : *found;
  }
  if (!key.AsInt(&index)) {
    return std::optional<Value>();
  }
  if (object.is_string()) {
    TRY(budget.Scan(object.text().bytes.size()));
    TRY_ASSIGN(const int64_t length, Length(object));
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length) {
      return std::optional<Value>();
    }
    return std::optional<Value>(SliceText(object.text(), index, 1, 1));
  }
  if (!object.is_list() || object.list()->form > List::Form::kRange) {
    return std::optional<Value>();
  }
  const auto length = static_cast<int64_t>(object.list()->items.size());
  index += index < 0 ? length : 0;
  if (index < 0 || index >= length) {
    return std::optional<Value>();
  }
  return std::optional<Value>(object.list()->items[static_cast<size_t>(index)]);
}

Status SortByKey(Budget& budget, std::vector<Keyed>& items, bool reverse) {
  Status status;
  const auto less = [&](const Value& a, const Value& b) {
    if (!status) {
      return false;
    }
    Result<bool> result = Less(budget, a, b);
    if (!result) {
      status = Fail(std::move(result).error());
      return false;
    }
    return *result;
  };
  MergeSort(items, [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(b.key, a.key) : less(a.key, b.key);
  });
  return status;
}

Result<Value> EscapeHtml(Budget& budget, const Value& value) {
  TRY_ASSIGN(const TextRef text, Str(budget, value));
  if (text->markup) {
    return Value(text);
  }
  TRY(budget.Decode(text->bytes.size()));
  TextBuilder builder;
  size_t plain = 0;
  for (size_t i = 0; i < text->bytes.size(); ++i) {
    static constexpr std::string_view kSpecial = "&<>'\"";
    static constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const size_t which = kSpecial.find(text->bytes[i]);
    if (which != std::string_view::npos) {
      builder.Append(*text, plain, i);
      builder.Append(kEntities[which], IsUserContent(*text, i));
      plain = i + 1;
    }
  }
  builder.Append(*text, plain, text->bytes.size());
  Text escaped = builder.Take();
  escaped.markup = true;
  return MakeText(budget, std::move(escaped));
}

}  // namespace fak::text::jinja

#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// Python's operators on values. Errors are kInvalidArgument with the words of Python's exception.

bool Truthy(const Value& value);
[[nodiscard]] Result<bool> Equal(Budget& budget, const Value& a, const Value& b);
[[nodiscard]] Result<bool> Less(Budget& budget, const Value& a, const Value& b);
[[nodiscard]] Result<bool> Contains(Budget& budget, const Value& container, const Value& item);
[[nodiscard]] Result<bool> Compare(Budget& budget, Operator op, const Value& a, const Value& b);
[[nodiscard]] Result<Value> Arithmetic(Budget& budget, Operator op, const Value& a, const Value& b);
[[nodiscard]] Result<Value> Negate(const Value& value);

// len(value).
[[nodiscard]] Result<int64_t> Length(const Value& value);
// iter(value): the elements as a list, which is the value's own where it is one. Walking an
// iterator uses it up.
[[nodiscard]] Result<ListRef> Iterate(Budget& budget, const Value& value);

// value[key] of lists, texts and dicts; null when there is no such element (jinja2 then looks for
// an attribute).
[[nodiscard]] Result<std::optional<Value>> Subscript(Budget& budget, const Value& object,
                                                     const Value& key);
// value[start:stop:step]; none or undefined parts are left out.
[[nodiscard]] Result<Value> Slice(Budget& budget, const Value& object, const Value& start,
                                  const Value& stop, const Value& step);

// Stable sort as Python's sorted() does it, by keys that belong to the values.
struct Keyed {
  Value key;
  Value value;
};
[[nodiscard]] Status SortByKey(Budget& budget, std::vector<Keyed>& items, bool reverse);

// Pays for looking a key up, or setting it: as much as comparing it with a dozen others takes.
[[nodiscard]] Status PayForKey(Budget& budget, const Value& key);
// The same, and an error for what can't be a key.
[[nodiscard]] Status CheckKey(Budget& budget, const Value& key);

// The message of an undefined value, for operations that refuse it.
tl::unexpected<Error> RaiseUndefined(const Value& value);

// Python's Markup.escape: &, <, >, ' and " as entities. A markup text stays as it is.
[[nodiscard]] Result<Value> EscapeHtml(Budget& budget, const Value& value);

}  // namespace fak::text::jinja

#pragma once

// How builtins read their arguments; only their .cc files include this.

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/operations.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

template <size_t kCount>
const Builtin* FindIn(const Builtin (&table)[kCount], std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Builtin& builtin) { return builtin.name == name; });
  return found == std::end(table) ? nullptr : found;
}

inline Result<int64_t> IntArgument(const Value* maybe_value, int64_t absent) {
  int64_t value = absent;
  if (maybe_value != nullptr && !maybe_value->is_none() && !maybe_value->AsInt(&value)) {
    return Raise("'" + std::string(TypeName(*maybe_value)) +
                 "' object cannot be interpreted as an integer");
  }
  return value;
}

inline bool BoolArgument(const Value* maybe_value, bool absent) {
  return maybe_value == nullptr ? absent : Truthy(*maybe_value);
}

inline bool IsGiven(const Value* maybe_value) {
  return maybe_value != nullptr && !maybe_value->is_none();
}

// A str argument, not converted.
inline Result<TextRef> TextArgument(const Value& value, std::string_view what) {
  if (!value.is_string()) {
    return Raise(std::string(what) + " must be str, not " + std::string(TypeName(value)));
  }
  return value.text_ref();
}

// Where to end making pieces that are paid for when all are there: one more than can be.
inline int64_t PiecesMost(size_t steps_left) {
  return static_cast<int64_t>(steps_left) + 1;
}

// Texts as a list value.
inline Result<Value> MakeTexts(Budget& budget, std::vector<Text> texts) {
  std::vector<Value> items;
  size_t bytes = 0;
  for (Text& text : texts) {
    bytes += text.bytes.size();
    items.emplace_back(std::move(text));
  }
  TRY(budget.Write(bytes));
  return MakeListValue(budget, std::move(items));
}

}  // namespace fak::text::jinja

#pragma once

// What the .cc files of filters and methods share.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// Filters on sequences and mappings; null when there is none of that name.
const Builtin* FindSequenceFilter(std::string_view name);
std::vector<Builtin> AllSequenceFilters();

// str.strip and its kin; pays for what goes and what stays.
[[nodiscard]] Result<Value> StripText(Budget& budget, const Text& text, const Value* maybe_chars,
                                      bool left, bool right);

// str.replace, with what it may make checked before it is made. count < 0: all.
[[nodiscard]] Result<Value> ReplaceText(Budget& budget, const Text& text, const Text& old_text,
                                        const Text& new_text, int64_t count);

// separator.join(items); items that aren't texts are an error, or made texts if `converts`.
[[nodiscard]] Result<Value> JoinTexts(Budget& budget, const Text& separator, const Value& items,
                                      bool converts);

}  // namespace fak::text::jinja

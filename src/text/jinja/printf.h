#pragma once

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// Python's format % args: args is a tuple, one value, or a dict for %(name)s.
[[nodiscard]] Result<Value> FormatPercent(Budget& budget, const Text& format, const Value& args);

// Python's format.format(*args, **kwargs). The evaluator looks up {0.name} and {0[key]}.
[[nodiscard]] Result<Value> FormatBraces(Evaluator& evaluator, const Text& format,
                                         const CallArguments& args);

}  // namespace fak::text::jinja

#pragma once

#include <string_view>

#include "text/jinja/builtins.h"

namespace fak::text::jinja {

// A method of str; as FindMethod().
const Builtin* FindTextMethod(std::string_view name, bool* is_known);

}  // namespace fak::text::jinja

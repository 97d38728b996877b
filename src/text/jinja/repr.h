#pragma once

#include <string>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// Python's repr of a float: the shortest digits that read back the same.
std::string FloatRepr(double value);

// str(value) and repr(value), with the marks of the texts inside. A text's str shares it.
[[nodiscard]] Result<TextRef> Str(Budget& budget, const Value& value);
[[nodiscard]] Result<Text> Repr(Budget& budget, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent;  // one level
  Text item_separator = {", ", {}, false};
  Text key_separator = {": ", {}, false};
};

// json.dumps(value) in the given style: what Hugging Face's tojson gives. Nothing is escaped for
// HTML. Keeps the marks of the texts inside.
[[nodiscard]] Result<Text> DumpJson(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace fak::text::jinja

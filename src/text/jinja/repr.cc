#include "text/jinja/repr.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/characters.h"

namespace fak::text::jinja {

namespace {

std::string Hex(char prefix, char32_t c, int digits) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\%c%0*x", prefix, digits, static_cast<unsigned>(c));
  return buffer;
}

// One character of a repr'd string.
void AppendReprCharacter(TextBuilder& out, char32_t c, char quote, bool is_user) {
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out.Append("\\", is_user);
    out.AppendCodePoint(c, is_user);
  } else if (c == '\n' || c == '\r' || c == '\t') {
    out.Append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", is_user);
  } else if (IsPrintable(c)) {
    out.AppendCodePoint(c, is_user);
  } else {
    out.Append(c < 0x100 ? Hex('x', c, 2) : c < 0x10000 ? Hex('u', c, 4) : Hex('U', c, 8), is_user);
  }
}

void AppendStringRepr(TextBuilder& out, const Text& text) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
  if (text.markup) {
    out.Append("Markup(");
  }
  out.Append(std::string_view(&quote, 1));
  MarkCursor marks(text);
  char32_t c = 0;
  for (size_t i = 0; i < text.bytes.size();) {
    const int length = DecodeUtf8(std::string_view(text.bytes).substr(i), &c);
    AppendReprCharacter(out, c, quote, marks.IsUserContent(i));
    i += static_cast<size_t>(length);
  }
  out.Append(std::string_view(&quote, 1));
  if (text.markup) {
    out.Append(")");
  }
}

struct Brackets {
  std::string_view open;
  std::string_view close;
};

Brackets BracketsOf(List::Form form) {
  switch (form) {
    case List::Form::kTuple: return {"(", ")"};
    case List::Form::kKeys: return {"dict_keys([", "])"};
    case List::Form::kValues: return {"dict_values([", "])"};
    case List::Form::kItems: return {"dict_items([", "])"};
    default: return {"[", "]"};
  }
}

Status AppendRepr(Budget& budget, TextBuilder& out, const Value& value);

Status AppendListRepr(Budget& budget, TextBuilder& out, const List& list) {
  if (list.form == List::Form::kIterator) {
    return Raise("a generator can't be printed, make it a list first");
  }
  if (list.form == List::Form::kRange) {
    out.Append("range(" + std::to_string(list.range[0]) + ", " + std::to_string(list.range[1]) +
               (list.range[2] == 1 ? "" : ", " + std::to_string(list.range[2])) + ")");
    return {};
  }
  const Brackets brackets = BracketsOf(list.form);
  out.Append(brackets.open);
  for (size_t i = 0; i < list.items.size(); ++i) {
    out.Append(i == 0 ? "" : ", ");
    TRY(AppendRepr(budget, out, list.items[i]));
  }
  out.Append(list.form == List::Form::kTuple && list.items.size() == 1 ? "," : "");
  out.Append(brackets.close);
  return {};
}

Status AppendDictRepr(Budget& budget, TextBuilder& out, const Dict& dict) {
  out.Append("{");
  bool is_first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    out.Append(is_first ? "" : ", ");
    is_first = false;
    TRY(AppendRepr(budget, out, entry.first));
    out.Append(": ");
    TRY(AppendRepr(budget, out, entry.second));
  }
  out.Append("}");
  return {};
}

Status AppendRepr(Budget& budget, TextBuilder& out, const Value& value) {
  const Budget::Level level(budget);
  TRY(level.Check());
  TRY(budget.Steps());
  if (value.is_string()) {
    TRY(budget.CheckSize(out.size() + value.text().bytes.size()));
    TRY(budget.Decode(value.text().bytes.size()));
    AppendStringRepr(out, value.text());
  } else if (value.is_list()) {
    return AppendListRepr(budget, out, *value.list());
  } else if (value.is_dict()) {
    return AppendDictRepr(budget, out, *value.dict());
  } else if (value.is_namespace()) {
    out.Append("<Namespace ");
    TRY(AppendDictRepr(budget, out, value.space()->attributes));
    out.Append(">");
  } else if (value.is_none()) {
    out.Append("None");
  } else if (value.is_bool()) {
    out.Append(value.boolean() ? "True" : "False");
  } else if (value.is_int()) {
    out.Append(std::to_string(value.integer()));
  } else if (value.is_big_int()) {
    out.Append(*value.big_int().digits);
  } else if (value.is_float()) {
    out.Append(FloatRepr(value.real()));
  } else if (value.is_undefined()) {
    out.Append("Undefined");
  } else {
    return Raise("a " + std::string(TypeName(value)) + " can't be printed");
  }
  return {};
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  char buffer[40] = {};  // stays terminated
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer - 1, value, std::chars_format::scientific).ptr;
  const std::string_view all(buffer, static_cast<size_t>(end - buffer));
  const size_t e = all.find('e');
  const int exponent = std::atoi(buffer + e + 1);
  std::string out = all[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : all.substr(0, e)) {
    if (c >= '0' && c <= '9') {
      digits += c;
    }
  }
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "");
    const int magnitude = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude < 10 ? "0" : "") +
           std::to_string(magnitude);
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return out + digits + std::string(whole - digits.size(), '0') + ".0";
  }
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

Result<TextRef> Str(Budget& budget, const Value& value) {
  if (value.is_string()) {
    return value.text_ref();
  }
  if (value.is_undefined()) {
    return std::make_shared<const Text>();
  }
  TRY_ASSIGN(Text text, Repr(budget, value));
  return std::make_shared<const Text>(std::move(text));
}

Result<Text> Repr(Budget& budget, const Value& value) {
  TextBuilder out;
  TRY(AppendRepr(budget, out, value));
  TRY(budget.CheckSize(out.size()));
  TRY(budget.Decode(out.size()));  // so that what walks over it once more is paid for too
  return out.Take();
}

}  // namespace fak::text::jinja

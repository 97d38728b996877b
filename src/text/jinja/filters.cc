// Filters on texts, numbers and any value; those on sequences are in sequence_filters.cc.

#include "text/jinja/filters.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/characters.h"
#include "text/jinja/printf.h"
#include "text/jinja/python_text.h"

namespace fak::text::jinja {

namespace {

using Args = BoundArguments;

template <CaseOf kCase>
Result<Value> FilterCase(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  return MakeText(evaluator.budget(), MapCase(*text, kCase));
}

// jinja2's title: words begin after a blank or one of -({[<, unlike str.title().
Result<Value> FilterTitle(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  const std::string_view bytes = text->bytes;
  TRY(evaluator.budget().Steps(bytes.size() / 2));  // a word may be one character
  TextBuilder builder;
  const auto is_edge = [](char32_t c) {
    return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  char32_t c = 0;
  for (size_t begin = 0; begin < bytes.size();) {
    size_t next = begin + static_cast<size_t>(DecodeUtf8(bytes.substr(begin), &c));
    const bool edge = is_edge(c);
    builder.Append(edge ? SubText(*text, begin, next)
                        : MapCase(SubText(*text, begin, next), CaseOf::kUpper));
    begin = next;
    while (!edge && next < bytes.size()) {
      const auto length = static_cast<size_t>(DecodeUtf8(bytes.substr(next), &c));
      if (is_edge(c)) {
        break;
      }
      next += length;
    }
    builder.Append(MapCase(SubText(*text, begin, next), CaseOf::kLower));
    begin = next;
  }
  return MakeText(evaluator.budget(), builder.Take());
}

Result<Value> FilterTrim(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  return StripText(evaluator.budget(), *text, args[0], true, true);
}

Result<Value> FilterReplace(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  TRY_ASSIGN(const TextRef old_text, Str(evaluator.budget(), *args[0]));
  TRY_ASSIGN(const TextRef new_text, Str(evaluator.budget(), *args[1]));
  TRY_ASSIGN(const int64_t count, IntArgument(args[2], -1));
  return ReplaceText(evaluator.budget(), *text, *old_text, *new_text, count);
}

Result<Value> FilterString(Evaluator& evaluator, const Value& self, const Args&) {
  return Str(evaluator.budget(), self).map([](TextRef text) { return Value(std::move(text)); });
}

Result<Value> FilterSafe(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  Text markup = *text;
  markup.markup = true;
  return MakeText(evaluator.budget(), std::move(markup));
}

Result<Value> FilterEscape(Evaluator& evaluator, const Value& self, const Args&) {
  return EscapeHtml(evaluator.budget(), self);
}

Result<Value> FilterForceEscape(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  Text plain = *text;
  plain.markup = false;
  return EscapeHtml(evaluator.budget(), Value(std::move(plain)));
}

Result<Value> FilterFormat(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  const CallArguments& all = args.all();
  if (!all.positional.empty() && !all.keywords.empty()) {
    return Raise("can't handle positional and keyword arguments at the same time");
  }
  if (all.keywords.empty()) {
    return FormatPercent(evaluator.budget(), *text, MakeList(all.positional, List::Form::kTuple));
  }
  std::vector<Dict::Entry> entries;
  for (const auto& [key, value] : all.keywords) {
    entries.emplace_back(Value::String(key), value);
  }
  return FormatPercent(evaluator.budget(), *text, MakeDict(std::move(entries)));
}

Result<Value> FilterIndent(Evaluator& evaluator, const Value& self, const Args& args) {
  Budget& budget = evaluator.budget();
  TRY_ASSIGN(const TextRef text, TextArgument(self, "the value to indent"));
  const bool first = BoolArgument(args[1], false);
  const bool blank = BoolArgument(args[2], false);
  TextRef indention = std::make_shared<const Text>(Text{"    ", {}, false});
  if (args[0] != nullptr && args[0]->is_string()) {
    indention = args[0]->text_ref();
  } else if (args[0] != nullptr) {
    TRY_ASSIGN(const int64_t width, IntArgument(args[0], 4));
    TRY(budget.WriteRepeated(1, static_cast<size_t>(std::max<int64_t>(width, 0))));
    indention = std::make_shared<const Text>(
        Text{std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), {}, false});
  }
  TextBuilder with_newline;
  with_newline.Append(*text);
  with_newline.Append("\n");
  const std::vector<Text> lines =
      SplitLines(with_newline.Take(), false, PiecesMost(budget.steps_left()));
  TRY(budget.Steps(lines.size()));
  TRY(budget.WriteRepeated(indention->bytes.size(), lines.size()));
  TextBuilder builder;
  for (size_t i = 0; i < lines.size(); ++i) {
    builder.Append(i == 0 ? "" : "\n");
    if (i == 0 ? first : (blank || !lines[i].bytes.empty())) {
      builder.Append(*indention);
    }
    builder.Append(lines[i]);
  }
  Text indented = builder.Take();
  indented.markup = text->markup;
  return MakeText(budget, std::move(indented));
}

Result<Value> FilterCenter(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  TRY_ASSIGN(const int64_t width, IntArgument(args[0], 80));
  TRY(evaluator.budget().WriteRepeated(1, static_cast<size_t>(std::max<int64_t>(width, 0))));
  return MakeText(evaluator.budget(), PadText(*text, width, " ", Pad::kCenter));
}

Result<Value> FilterTruncate(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef text, TextArgument(self, "the value to truncate"));
  TRY_ASSIGN(const int64_t length, IntArgument(args[0], 255));
  const bool kill_words = BoolArgument(args[1], false);
  TextRef end = std::make_shared<const Text>(Text{"...", {}, false});
  if (args[2] != nullptr) {
    TRY_ASSIGN(end, TextArgument(*args[2], "the end of truncate()"));
  }
  TRY_ASSIGN(const int64_t leeway, IntArgument(args[3], 5));
  const int64_t end_length = CodePoints(end->bytes);
  if (length < end_length || leeway < 0) {
    return Raise("truncate() needs length >= " + std::to_string(end_length) + " and leeway >= 0");
  }
  if (CodePoints(text->bytes) <= length + leeway) {
    return self;
  }
  Text kept = SubText(*text, 0, ByteOffset(text->bytes, length - end_length));
  if (!kill_words) {
    const size_t blank = kept.bytes.rfind(' ');
    kept = SubText(kept, 0, blank == std::string::npos ? kept.bytes.size() : blank);
  }
  TextBuilder builder;
  builder.Append(kept);
  builder.Append(*end);
  return MakeText(evaluator.budget(), builder.Take());
}

Result<Value> FilterWordCount(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  int64_t words = 0;
  bool in_word = false;
  char32_t c = 0;
  for (size_t i = 0; i < text->bytes.size();) {
    i += static_cast<size_t>(DecodeUtf8(std::string_view(text->bytes).substr(i), &c));
    const bool is_part = IsWordPart(c);
    words += is_part && !in_word ? 1 : 0;
    in_word = is_part;
  }
  return Value(words);
}

Result<Value> FilterUrlEncode(Evaluator& evaluator, const Value& self, const Args&) {
  TRY_ASSIGN(const TextRef text, Str(evaluator.budget(), self));
  if (self.is_list() || self.is_dict()) {
    return Fail(Code::kUnsupported, "urlencode of a sequence is not supported");
  }
  TextBuilder builder;
  for (size_t i = 0; i < text->bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text->bytes[i]);
    static constexpr std::string_view kSafe = "_.-~/";
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    if (byte < 0x80 && (std::isalnum(byte) != 0 || kSafe.find(text->bytes[i]) != kSafe.npos)) {
      builder.Append(*text, i, i + 1);
    } else {
      const char escape[3] = {'%', kHex[byte >> 4], kHex[byte & 15]};
      builder.Append(std::string_view(escape, 3), IsUserContent(*text, i));
    }
  }
  return MakeText(evaluator.budget(), builder.Take());
}

// ---- numbers

// int() of a text in the base, or nothing where Python raises ValueError.
std::optional<int64_t> ParseInt(const Text& text, int base) {
  std::string digits = Strip(text, nullptr, true, true).bytes;
  const bool is_negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    digits.erase(0, 1);
  }
  if (digits.empty() || digits.front() == '_' || digits.back() == '_' ||
      digits.find("__") != std::string::npos) {
    return std::nullopt;
  }
  std::erase(digits, '_');
  static constexpr std::pair<int, char> kPrefixes[] = {{16, 'x'}, {8, 'o'}, {2, 'b'}};
  for (const auto& [prefix_base, letter] : kPrefixes) {
    if (base == prefix_base && digits.size() > 2 && digits[0] == '0' &&
        (digits[1] | 0x20) == letter) {
      digits.erase(0, 2);
    }
  }
  int64_t value = 0;
  const std::string signed_digits = (is_negative ? "-" : "") + digits;
  const auto done = std::from_chars(signed_digits.data(),
                                    signed_digits.data() + signed_digits.size(), value, base);
  if (done.ec != std::errc() || done.ptr != signed_digits.data() + signed_digits.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> ParseFloat(const Text& text) {
  const std::string digits = Strip(text, nullptr, true, true).bytes;
  static constexpr std::string_view kAllowed = "0123456789+-.eE_";
  const bool is_word = digits == "inf" || digits == "-inf" || digits == "nan";
  if (digits.empty() || (!is_word && digits.find_first_not_of(kAllowed) != std::string::npos)) {
    return std::nullopt;
  }
  std::string plain = digits;
  std::erase(plain, '_');
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) {
    return std::nullopt;
  }
  return value;
}

Value TruncateToInt(double value, const Value& otherwise) {
  if (!(std::fabs(value) < 9.2e18)) {
    return otherwise;
  }
  return Value(static_cast<int64_t>(value));
}

Result<Value> FilterInt(Evaluator&, const Value& self, const Args& args) {
  Value otherwise = args[0] == nullptr ? Value(int64_t{0}) : *args[0];
  TRY_ASSIGN(const int64_t base, IntArgument(args[1], 10));
  if (base < 2 || base > 36) {
    return Raise("int() base must be >= 2 and <= 36");
  }
  int64_t integer = 0;
  if (self.is_big_int() || self.AsInt(&integer)) {
    return self.is_big_int() ? self : Value(integer);
  }
  if (self.is_float()) {
    return TruncateToInt(self.real(), otherwise);
  }
  if (self.is_undefined()) {
    return RaiseUndefined(self);
  }
  if (!self.is_string()) {
    return otherwise;
  }
  if (const std::optional<int64_t> parsed = ParseInt(self.text(), static_cast<int>(base))) {
    return Value(*parsed);
  }
  const std::optional<double> real = ParseFloat(self.text());
  return real ? TruncateToInt(*real, otherwise) : otherwise;
}

Result<Value> FilterFloat(Evaluator&, const Value& self, const Args& args) {
  const Value otherwise = args[0] == nullptr ? Value(0.0) : *args[0];
  double value = 0;
  if (self.AsDouble(&value)) {
    return Value(value);
  }
  if (self.is_undefined()) {
    return RaiseUndefined(self);
  }
  const std::optional<double> parsed = self.is_string() ? ParseFloat(self.text()) : std::nullopt;
  return parsed ? Value(*parsed) : otherwise;
}

Result<Value> FilterAbs(Evaluator&, const Value& self, const Args&) {
  int64_t integer = 0;
  if (self.AsInt(&integer)) {
    return integer < 0 ? Negate(Value(integer)) : Result<Value>(Value(integer));
  }
  if (self.is_float()) {
    return Value(std::fabs(self.real()));
  }
  return self.is_undefined()
             ? Result<Value>(RaiseUndefined(self))
             : Raise("bad operand type for abs(): '" + std::string(TypeName(self)) + "'");
}

// round(value, precision) as Python does it for floats: exact decimal, ties to even.
double RoundHalfEven(double value, int64_t precision) {
  if (precision >= 0) {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, "%.*f",
                  static_cast<int>(std::min<int64_t>(precision, 100)), value);
    return std::strtod(buffer, nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(std::min<int64_t>(-precision, 308)));
  return std::nearbyint(value / scale) * scale;
}

Result<Value> FilterRound(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const int64_t precision, IntArgument(args[0], 0));
  TRY(evaluator.budget().Steps(kFloatTextSteps));
  std::string method = "common";
  if (args[1] != nullptr) {
    TRY_ASSIGN(const TextRef name, Str(evaluator.budget(), *args[1]));
    method = name->bytes;
  }
  double value = 0;
  if (self.is_undefined()) {
    return RaiseUndefined(self);
  }
  if (!self.AsDouble(&value) || self.is_big_int()) {
    return Raise("type " + std::string(TypeName(self)) + " doesn't define __round__ method");
  }
  if (method == "common") {
    int64_t integer = 0;
    const double rounded = RoundHalfEven(value, precision);
    return self.AsInt(&integer) ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
  }
  if (method != "ceil" && method != "floor") {
    return Raise("method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale);
}

// ---- any value

Result<Value> FilterDefault(Evaluator&, const Value& self, const Args& args) {
  const bool replaces = self.is_undefined() || (BoolArgument(args[1], false) && !Truthy(self));
  if (!replaces) {
    return self;
  }
  return args[0] == nullptr ? Value::String("") : *args[0];
}

Result<Value> FilterAttr(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef name, TextArgument(*args[0], "the name for attr()"));
  if (self.is_dict()) {  // an attribute, and never an item
    bool is_known = false;
    if (FindMethod(self, name->bytes, &is_known) == nullptr) {
      return Value::MakeUndefined("'dict object' has no attribute '" + name->bytes + "'");
    }
  }
  return evaluator.GetAttribute(self, Value(name));
}

// Hugging Face's tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False).
Result<Value> FilterToJson(Evaluator& evaluator, const Value& self, const Args& args) {
  Budget& budget = evaluator.budget();
  JsonStyle style;
  style.ensure_ascii = BoolArgument(args[0], false);
  style.sort_keys = BoolArgument(args[3], false);
  if (IsGiven(args[1])) {
    style.has_indent = true;
    style.item_separator = {",", {}, false};
    if (args[1]->is_string()) {
      style.indent = args[1]->text().bytes;
    } else {
      TRY_ASSIGN(const int64_t width, IntArgument(args[1], 0));
      TRY(budget.WriteRepeated(1, static_cast<size_t>(std::max<int64_t>(width, 0))));
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (IsGiven(args[2])) {
    TRY_ASSIGN(const ListRef separators, Iterate(budget, *args[2]));
    if (separators->items.size() != 2) {
      return Raise("separators must be a pair");
    }
    TRY_ASSIGN(const TextRef item, TextArgument(separators->items[0], "a separator"));
    TRY_ASSIGN(const TextRef key, TextArgument(separators->items[1], "a separator"));
    style.item_separator = *item;
    style.key_separator = *key;
  }
  TRY_ASSIGN(Text text, DumpJson(budget, self, style));
  return Value(std::move(text));
}

constexpr Builtin kFilters[] = {
    {"abs", "", FilterAbs},
    {"attr", "name", FilterAttr, Charge::kItself},
    {"capitalize", "", FilterCase<CaseOf::kCapitalize>},
    {"center", "width?", FilterCenter},
    {"d", "default_value? boolean?", FilterDefault, Charge::kItself},
    {"default", "default_value? boolean?", FilterDefault, Charge::kItself},
    {"e", "", FilterEscape},
    {"escape", "", FilterEscape},
    {"float", "default?", FilterFloat},
    {"forceescape", "", FilterForceEscape},
    {"format", "*", FilterFormat, Charge::kItself},
    {"indent", "width? first? blank?", FilterIndent},
    {"int", "default? base?", FilterInt},
    {"lower", "", FilterCase<CaseOf::kLower>},
    {"replace", "old new count?", FilterReplace, Charge::kScan},
    {"round", "precision? method?", FilterRound},
    {"safe", "", FilterSafe, Charge::kItself},
    {"string", "", FilterString, Charge::kItself},
    {"title", "", FilterTitle},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", FilterToJson},
    {"trim", "chars?", FilterTrim, Charge::kItself},
    {"truncate", "length? killwords? end? leeway?", FilterTruncate},
    {"upper", "", FilterCase<CaseOf::kUpper>},
    {"urlencode", "", FilterUrlEncode},
    {"wordcount", "", FilterWordCount},
};

}  // namespace

Result<Value> ReplaceText(Budget& budget, const Text& text, const Text& old_text,
                          const Text& new_text, int64_t count) {
  const int64_t all = CountBytes(text.bytes, old_text.bytes);
  const int64_t places = count < 0 ? all : std::min(all, count);
  TRY(budget.Pieces(static_cast<size_t>(all)));
  TRY(budget.WriteRepeated(new_text.bytes.size(), static_cast<size_t>(places)));
  return MakeText(budget, Replace(text, old_text.bytes, new_text, count));
}

Result<Value> StripText(Budget& budget, const Text& text, const Value* maybe_chars, bool left,
                        bool right) {
  std::string_view set;
  if (IsGiven(maybe_chars)) {
    TRY_ASSIGN(const TextRef chars, TextArgument(*maybe_chars, "the characters to strip"));
    TRY(budget.Steps(chars->bytes.size()));
    set = maybe_chars->text().bytes;
  }
  Text stripped = Strip(text, IsGiven(maybe_chars) ? &set : nullptr, left, right);
  TRY(budget.Decode(text.bytes.size() - stripped.bytes.size()));
  return MakeText(budget, std::move(stripped));
}

std::vector<Builtin> AllFilters() {
  std::vector<Builtin> all = AllSequenceFilters();
  all.insert(all.end(), std::begin(kFilters), std::end(kFilters));
  return all;
}

const Builtin* FindFilter(std::string_view name) {
  const Builtin* found = FindIn(kFilters, name);
  return found != nullptr ? found : FindSequenceFilter(name);
}

}  // namespace fak::text::jinja

#include "text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

namespace {

constexpr int64_t kNumberMax = 1'000'000;  // of a width; the text bound holds below it too
constexpr int64_t kPrecisionMax = 400;     // of a float's digits

bool IsAlign(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}

Result<int64_t> TakeNumber(std::string_view spec, size_t* i) {
  int64_t number = 0;
  while (*i < spec.size() && IsAsciiDigit(spec[*i])) {
    number = number * 10 + (spec[*i] - '0');
    if (number > kNumberMax) {
      return Raise("Too many decimal digits in format string");
    }
    ++*i;
  }
  return number;
}

// The digits of a non-negative integer in the base, grouped.
std::string IntegerDigits(uint64_t magnitude, const FormatSpec& spec) {
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16
                        : spec.type == 'o'                   ? 8
                        : spec.type == 'b'                   ? 2
                                                             : 10;
  const std::string_view alphabet = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  size_t count = 0;
  const size_t group = base == 10 ? 3 : 4;
  do {
    if (spec.grouping != '\0' && count > 0 && count % group == 0) {
      digits += spec.grouping;
    }
    digits += alphabet[magnitude % base];
    magnitude /= base;
    ++count;
  } while (magnitude > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

void GroupThousands(std::string* digits, char separator) {
  const size_t whole = std::min(digits->find_first_not_of("0123456789"), digits->size());
  for (size_t at = whole; at > 3;) {
    at -= 3;
    digits->insert(at, 1, separator);
  }
}

Result<std::string> FloatDigits(double magnitude, const FormatSpec& spec) {
  if (std::isnan(magnitude) || std::isinf(magnitude)) {
    const bool is_upper = spec.type >= 'A' && spec.type <= 'Z';
    return std::string(std::isnan(magnitude) ? (is_upper ? "NAN" : "nan")
                                             : (is_upper ? "INF" : "inf"));
  }
  std::string digits;
  if (spec.type == '\0' && spec.precision < 0) {
    digits = FloatRepr(magnitude);
  } else {
    const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
    if (precision > kPrecisionMax) {
      return Raise("precision too big");
    }
    const char type = spec.type == '\0' ? 'g' : spec.type == '%' ? 'f' : spec.type;
    const std::string format = std::string(spec.alternate ? "%#.*" : "%.*") + type;
    char buffer[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    std::snprintf(buffer, sizeof buffer, format.c_str(), static_cast<int>(precision),
                  spec.type == '%' ? magnitude * 100 : magnitude);
#pragma GCC diagnostic pop
    digits = buffer;
    if (spec.type == '\0' && digits.find_first_of(".e") == std::string::npos) {
      digits += ".0";
    }
  }
  if (spec.grouping != '\0') {
    GroupThousands(&digits, spec.grouping);
  }
  return spec.type == '%' ? digits + "%" : digits;
}

Text PadNumber(const std::string& sign, const std::string& digits, const FormatSpec& spec) {
  const auto length = static_cast<int64_t>(sign.size() + digits.size());
  TextBuilder builder;
  if (spec.align == '=' && length < spec.width) {
    builder.Append(sign);
    for (int64_t i = length; i < spec.width; ++i) {
      builder.Append(spec.fill);
    }
    builder.Append(digits);
    return builder.Take();
  }
  builder.Append(sign + digits);
  return PadText(builder.Take(), spec.width, spec.fill,
                 spec.align == '<'   ? Pad::kRight
                 : spec.align == '^' ? Pad::kCenter
                                     : Pad::kLeft);
}

std::string SignOf(bool is_negative, const FormatSpec& spec) {
  return is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

tl::unexpected<Error> RaiseType(const FormatSpec& spec, const Value& value) {
  return Raise(std::string("Unknown format code '") + spec.type + "' for object of type '" +
               std::string(TypeName(value)) + "'");
}

Result<Text> FormatInteger(const Value& value, int64_t integer, const FormatSpec& spec) {
  static constexpr std::string_view kTypes = "dbcoxXn";
  if (spec.type != '\0' && kTypes.find(spec.type) == std::string_view::npos) {
    return RaiseType(spec, value);
  }
  if (spec.precision >= 0) {
    return Raise("Precision not allowed in integer format specifier");
  }
  if (spec.type == 'c') {
    if (integer < 0 || integer > 0x10FFFF) {
      return Raise("%c arg not in range(0x110000)");
    }
    std::string character;
    AppendUtf8(character, static_cast<char32_t>(integer));
    return PadText(Text{character, {}, false}, spec.width, spec.fill, Pad::kRight);
  }
  const bool is_negative = integer < 0;
  const uint64_t magnitude =
      is_negative ? uint64_t{0} - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
  std::string sign = SignOf(is_negative, spec);
  if (spec.alternate && spec.type != '\0' && spec.type != 'd' && spec.type != 'n') {
    sign += std::string("0") + spec.type;
  }
  return PadNumber(sign, IntegerDigits(magnitude, spec), spec);
}

Result<Text> FormatText(Budget& budget, const Value& value, const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's') {
    return RaiseType(spec, value);
  }
  if (spec.align == '=') {
    return Raise("'=' alignment not allowed in string format specifier");
  }
  TRY_ASSIGN(const TextRef text, Str(budget, value));
  TRY(budget.Write(*text));
  Text cut = *text;
  if (spec.precision >= 0) {
    cut = SubText(*text, 0, ByteOffset(text->bytes, spec.precision));
  }
  return PadText(cut, spec.width, spec.fill,
                 spec.align == '>'   ? Pad::kLeft
                 : spec.align == '^' ? Pad::kCenter
                                     : Pad::kRight);
}

}  // namespace

Result<FormatSpec> ParseFormatSpec(std::string_view spec) {
  FormatSpec parsed;
  size_t i = 0;
  char32_t c = 0;
  const int first = spec.empty() ? 0 : DecodeUtf8(spec, &c);
  const auto length = static_cast<size_t>(std::max(first, 0));
  if (length > 0 && length < spec.size() && IsAlign(spec[length])) {
    parsed.fill = std::string(spec.substr(0, length));
    parsed.align = spec[length];
    i = length + 1;
  } else if (!spec.empty() && IsAlign(spec[0])) {
    parsed.align = spec[0];
    i = 1;
  }
  const auto at = [&](char wanted) { return i < spec.size() && spec[i] == wanted; };
  if (at('+') || at('-') || at(' ')) {
    parsed.sign = spec[i++];
  }
  if (at('#')) {
    parsed.alternate = true;
    ++i;
  }
  if (at('0')) {
    if (parsed.align == '\0') {
      parsed.fill = "0";
      parsed.align = '=';
    }
    ++i;
  }
  TRY_ASSIGN(parsed.width, TakeNumber(spec, &i));
  if (at(',') || at('_')) {
    parsed.grouping = spec[i++];
  }
  if (at('.')) {
    ++i;
    if (i >= spec.size() || !IsAsciiDigit(spec[i])) {
      return Raise("Format specifier missing precision");
    }
    TRY_ASSIGN(parsed.precision, TakeNumber(spec, &i));
  }
  if (i < spec.size()) {
    parsed.type = spec[i++];
  }
  if (i != spec.size()) {
    return Raise("Invalid format specifier '" + std::string(spec) + "'");
  }
  return parsed;
}

Result<Text> FormatValue(Budget& budget, const Value& value, const FormatSpec& spec) {
  TRY(budget.WriteRepeated(spec.fill.size(), static_cast<size_t>(spec.width)));
  static constexpr std::string_view kFloatTypes = "eEfFgG%";
  const bool wants_float =
      spec.type != '\0' && kFloatTypes.find(spec.type) != std::string_view::npos;
  int64_t integer = 0;
  const bool is_plain_bool = value.is_bool() && spec.type == '\0';
  if (!wants_float && !is_plain_bool && value.AsInt(&integer)) {
    return FormatInteger(value, integer, spec);
  }
  double real = 0;
  if (!is_plain_bool && value.is_number() && !value.is_big_int() && value.AsDouble(&real)) {
    if (spec.type != '\0' && !wants_float) {
      return RaiseType(spec, value);
    }
    TRY(budget.Steps(kFloatTextSteps));
    TRY_ASSIGN(const std::string digits, FloatDigits(std::fabs(real), spec));
    return PadNumber(SignOf(std::signbit(real) && !std::isnan(real), spec), digits, spec);
  }
  return FormatText(budget, value, spec);
}

}  // namespace fak::text::jinja

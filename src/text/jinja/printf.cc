#include "text/jinja/printf.h"

#include <cmath>

#include "text/jinja/evaluator.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

namespace {

// ---- format % args

class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, const Text& format, const Value& args)
      : budget_(budget), format_(format), args_(args) {
    is_tuple_ = args.is_list() && args.list()->form == List::Form::kTuple;
  }
  Result<Value> Run();

 private:
  Result<void> Conversion(size_t* i);
  Result<Value> Next();
  Result<Value> Named(size_t* i);
  Result<void> Flags(size_t* i, FormatSpec* spec);
  Result<int64_t> NumberOrStar(size_t* i);
  Result<Text> Convert(const Value& value, FormatSpec spec, char type);

  Budget& budget_;
  const Text& format_;
  const Value& args_;
  bool is_tuple_ = false;
  size_t next_ = 0;
  TextBuilder out_;
};

Result<Value> PercentFormatter::Run() {
  const std::string& bytes = format_.bytes;
  TRY(budget_.Decode(bytes.size()));
  size_t plain = 0;
  for (size_t i = 0; i < bytes.size();) {
    if (bytes[i] != '%') {
      ++i;
      continue;
    }
    out_.Append(format_, plain, i);
    ++i;
    TRY(Conversion(&i));
    TRY(budget_.Steps());
    TRY(budget_.CheckSize(out_.size()));
    plain = i;
  }
  out_.Append(format_, plain, bytes.size());
  const size_t given = is_tuple_ ? args_.list()->items.size() : args_.is_dict() ? 0 : 1;
  if (next_ < given) {
    return Raise("not all arguments converted during string formatting");
  }
  return MakeText(budget_, out_.Take());
}

Result<Value> PercentFormatter::Next() {
  const size_t given = is_tuple_ ? args_.list()->items.size() : 1;
  if (next_ >= given) {
    return Raise("not enough arguments for format string");
  }
  ++next_;
  return is_tuple_ ? args_.list()->items[next_ - 1] : args_;
}

Result<Value> PercentFormatter::Named(size_t* i) {
  const size_t end = format_.bytes.find(')', *i);
  if (end == std::string::npos) {
    return Raise("incomplete format key");
  }
  const std::string name = format_.bytes.substr(*i + 1, end - *i - 1);
  *i = end + 1;
  if (!args_.is_dict()) {
    return Raise("format requires a mapping");
  }
  const Value* value = args_.dict()->Find(name);
  if (value == nullptr) {
    return Raise("no key '" + name + "' for the format string");
  }
  return *value;
}

Result<int64_t> PercentFormatter::NumberOrStar(size_t* i) {
  const std::string& bytes = format_.bytes;
  if (*i < bytes.size() && bytes[*i] == '*') {
    ++*i;
    TRY_ASSIGN(const Value value, Next());
    int64_t number = 0;
    if (!value.AsInt(&number) || std::abs(number) > 1'000'000) {
      return Raise("* wants int");
    }
    return number;
  }
  int64_t number = 0;
  while (*i < bytes.size() && bytes[*i] >= '0' && bytes[*i] <= '9') {
    number = number * 10 + (bytes[(*i)++] - '0');
    if (number > 1'000'000) {
      return Raise("width too big");
    }
  }
  return number;
}

Result<void> PercentFormatter::Flags(size_t* i, FormatSpec* spec) {
  const std::string& bytes = format_.bytes;
  for (; *i < bytes.size(); ++*i) {
    switch (bytes[*i]) {
      case '-':
        spec->align = '<';
        spec->fill = " ";
        break;
      case '0':
        if (spec->align != '<') {
          spec->align = '=';
          spec->fill = "0";
        }
        break;
      case '+': spec->sign = '+'; break;
      case ' ': spec->sign = spec->sign == '+' ? '+' : ' '; break;
      case '#': spec->alternate = true; break;
      default: return {};
    }
  }
  return {};
}

Result<void> PercentFormatter::Conversion(size_t* i) {
  const std::string& bytes = format_.bytes;
  std::optional<Value> named;
  if (*i < bytes.size() && bytes[*i] == '(') {
    TRY_ASSIGN(named, Named(i));
  }
  FormatSpec spec;
  TRY(Flags(i, &spec));
  TRY_ASSIGN(spec.width, NumberOrStar(i));
  if (spec.width < 0) {
    spec.align = '<';
    spec.width = -spec.width;
  }
  if (*i < bytes.size() && bytes[*i] == '.') {
    ++*i;
    TRY_ASSIGN(spec.precision, NumberOrStar(i));
  }
  while (*i < bytes.size() && (bytes[*i] == 'l' || bytes[*i] == 'h' || bytes[*i] == 'L')) {
    ++*i;
  }
  if (*i >= bytes.size()) {
    return Raise("incomplete format");
  }
  const char type = bytes[(*i)++];
  if (type == '%') {
    out_.Append("%");
    return {};
  }
  if (!named) {
    TRY_ASSIGN(named, Next());
  }
  TRY_ASSIGN(const Text text, Convert(*named, spec, type));
  out_.Append(text);
  return {};
}

Result<Text> PercentFormatter::Convert(const Value& value, FormatSpec spec, char type) {
  static constexpr std::string_view kIntegers = "diuoxX";
  static constexpr std::string_view kFloats = "eEfFgG";
  Value argument = value;
  if (type == 's' || type == 'r') {
    if (type != 's') {
      TRY_ASSIGN(Text repr, Repr(budget_, value));
      argument = Value(std::move(repr));
    } else {
      TRY_ASSIGN(TextRef text, Str(budget_, value));
      argument = Value(std::move(text));
    }
    spec.align = spec.align == '<' ? '<' : '>';
    spec.fill = " ";
    return FormatValue(budget_, argument, spec);
  }
  if (type == 'c' && value.is_string() && CodePoints(value.text().bytes) == 1) {
    return FormatValue(budget_, value, spec);
  }
  if (kIntegers.find(type) != std::string_view::npos || type == 'c') {
    double real = 0;
    int64_t integer = 0;
    if (!value.AsInt(&integer)) {
      if (!value.is_float() || !value.AsDouble(&real) || !(std::fabs(real) < 9e18) ||
          (type != 'd' && type != 'i' && type != 'u')) {
        return Raise(std::string("%") + type + " format: a real number is required, not " +
                     std::string(TypeName(value)));
      }
      integer = static_cast<int64_t>(real);
    }
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    spec.precision = -1;
    return FormatValue(budget_, Value(integer), spec);
  }
  if (kFloats.find(type) != std::string_view::npos) {
    if (!value.is_number()) {
      return Raise("must be real number, not " + std::string(TypeName(value)));
    }
    spec.type = type;
    return FormatValue(budget_, value, spec);
  }
  return Raise(std::string("unsupported format character '") + type + "'");
}

// ---- format.format(...)

class BracesFormatter {
 public:
  BracesFormatter(Evaluator& evaluator, const CallArguments& args)
      : evaluator_(evaluator), args_(args) {}
  // Nested fields in a specification go one level deep, as in Python.
  Result<Text> Run(const Text& format, int levels);

 private:
  Result<void> Field(const Text& format, size_t begin, size_t end, int levels, TextBuilder* out);
  Result<Value> Lookup(std::string_view name);
  Result<Value> First(std::string_view name);

  Evaluator& evaluator_;
  const CallArguments& args_;
  size_t next_ = 0;
};

Result<Value> BracesFormatter::First(std::string_view name) {
  size_t index = 0;
  const bool is_index =
      name.find_first_not_of("0123456789") == std::string_view::npos && name.size() < 7;
  if (is_index) {
    for (const char c : name) {
      index = index * 10 + static_cast<size_t>(c - '0');
    }
    index = name.empty() ? next_++ : index;
    if (index >= args_.positional.size()) {
      return Raise("Replacement index " + std::to_string(index) +
                   " out of range for positional args tuple");
    }
    return args_.positional[index];
  }
  TRY(evaluator_.budget().Pieces(args_.keywords.size()));
  for (const auto& [key, value] : args_.keywords) {
    if (key == name) {
      return value;
    }
  }
  return Raise("format() has no argument '" + std::string(name) + "'");
}

// name, then any of .attribute and [key].
Result<Value> BracesFormatter::Lookup(std::string_view name) {
  size_t end = std::min(name.find_first_of(".["), name.size());
  TRY_ASSIGN(Value value, First(name.substr(0, end)));
  while (end < name.size()) {
    const bool is_attribute = name[end] == '.';
    const size_t begin = end + 1;
    end = is_attribute ? std::min(name.find_first_of(".[", begin), name.size())
                       : name.find(']', begin);
    if (end == std::string_view::npos) {
      return Raise("Missing ']' in format string");
    }
    const std::string_view part = name.substr(begin, end - begin);
    if (is_attribute) {
      TRY_ASSIGN(value, evaluator_.GetAttribute(value, Value::String(part)));
      continue;
    }
    ++end;
    const bool is_index = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string_view::npos;
    const Value key = is_index ? Value(int64_t{std::stol(std::string(part))}) : Value::String(part);
    TRY_ASSIGN(value, evaluator_.GetItem(value, key));
  }
  return value;
}

Result<void> BracesFormatter::Field(const Text& format, size_t begin, size_t end, int levels,
                                    TextBuilder* out) {
  const std::string_view field = std::string_view(format.bytes).substr(begin, end - begin);
  size_t colon = field.find(':');
  // A ':' inside [key] belongs to the name.
  if (const size_t open = field.find('['); open < colon) {
    colon = field.find(':', std::min(field.find(']', open), field.size()));
  }
  const std::string_view head = field.substr(0, colon);
  const size_t bang = head.find('!');
  TRY_ASSIGN(Value value, Lookup(head.substr(0, bang)));
  if (bang != std::string_view::npos) {
    const std::string_view conversion = head.substr(bang + 1);
    if (conversion == "s") {
      TRY_ASSIGN(TextRef text, Str(evaluator_.budget(), value));
      value = Value(std::move(text));
    } else if (conversion == "r") {
      TRY_ASSIGN(Text text, Repr(evaluator_.budget(), value));
      value = Value(std::move(text));
    } else {
      return Raise("Unknown conversion specifier '" + std::string(conversion) + "'");
    }
  }
  FormatSpec spec;
  if (colon != std::string_view::npos) {
    if (levels == 0) {
      return Raise("Max string recursion exceeded");
    }
    TRY_ASSIGN(const Text text, Run(SubText(format, begin + colon + 1, end), levels - 1));
    TRY_ASSIGN(spec, ParseFormatSpec(text.bytes));
  }
  TRY_ASSIGN(const Text text, FormatValue(evaluator_.budget(), value, spec));
  out->Append(text);
  return {};
}

Result<Text> BracesFormatter::Run(const Text& format, int levels) {
  const std::string& bytes = format.bytes;
  TRY(evaluator_.budget().Decode(bytes.size()));
  TextBuilder out;
  size_t plain = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '{' && bytes[i] != '}') {
      continue;
    }
    out.Append(format, plain, i);
    if (i + 1 < bytes.size() && bytes[i + 1] == bytes[i]) {
      out.Append(format, i, i + 1);
      ++i;
      plain = i + 1;
      continue;
    }
    if (bytes[i] == '}') {
      return Raise("Single '}' encountered in format string");
    }
    size_t end = i + 1;
    for (int open = 1; end < bytes.size(); ++end) {
      open += bytes[end] == '{' ? 1 : bytes[end] == '}' ? -1 : 0;
      if (open == 0) {
        break;
      }
    }
    if (end >= bytes.size()) {
      return Raise("expected '}' before end of string");
    }
    TRY(Field(format, i + 1, end, levels, &out));
    TRY(evaluator_.budget().Steps());
    TRY(evaluator_.budget().CheckSize(out.size()));
    i = end;
    plain = end + 1;
  }
  out.Append(format, plain, bytes.size());
  Text text = out.Take();
  text.markup = format.markup;
  return text;
}

}  // namespace

Result<Value> FormatPercent(Budget& budget, const Text& format, const Value& args) {
  return PercentFormatter(budget, format, args).Run();
}

Result<Value> FormatBraces(Evaluator& evaluator, const Text& format, const CallArguments& args) {
  TRY_ASSIGN(Text text, BracesFormatter(evaluator, args).Run(format, 2));
  return MakeText(evaluator.budget(), std::move(text));
}

}  // namespace fak::text::jinja

// Methods of str.

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/printf.h"
#include "text/jinja/python_text.h"

namespace fak::text::jinja {

namespace {

using Args = BoundArguments;

template <CaseOf kCase>
Result<Value> TextCase(Evaluator& evaluator, const Value& self, const Args&) {
  return MakeText(evaluator.budget(), MapCase(self.text(), kCase));
}

template <bool kLeft, bool kRight>
Result<Value> TextStrip(Evaluator& evaluator, const Value& self, const Args& args) {
  return StripText(evaluator.budget(), self.text(), args[0], kLeft, kRight);
}

template <bool kFromRight>
Result<Value> TextSplit(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(int64_t limit, IntArgument(args[1], -1));
  const auto most = PiecesMost(evaluator.budget().steps_left());
  limit = limit < 0 ? most : std::min(limit, most);
  TextRef separator;
  if (IsGiven(args[0])) {
    TRY_ASSIGN(separator, TextArgument(*args[0], "the separator"));
    if (separator->bytes.empty()) {
      return Raise("empty separator");
    }
  }
  TRY(separator == nullptr ? evaluator.budget().Decode(self.text().bytes.size()) : Status{});
  return MakeTexts(evaluator.budget(), kFromRight ? RSplit(self.text(), separator.get(), limit)
                                                  : Split(self.text(), separator.get(), limit));
}

Result<Value> TextSplitLines(Evaluator& evaluator, const Value& self, const Args& args) {
  return MakeTexts(evaluator.budget(), SplitLines(self.text(), BoolArgument(args[0], false),
                                                  PiecesMost(evaluator.budget().steps_left())));
}

template <bool kFromRight>
Result<Value> TextPartition(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef separator, TextArgument(*args[0], "the separator"));
  if (separator->bytes.empty()) {
    return Raise("empty separator");
  }
  const Text& text = self.text();
  TRY(evaluator.budget().Write(text.bytes.size()));
  const size_t at = kFromRight ? RFindBytes(text.bytes, separator->bytes)
                               : FindBytes(text.bytes, separator->bytes);
  std::vector<Value> parts;
  if (at == std::string_view::npos) {
    parts = {self, Value::String(""), Value::String("")};
    if (kFromRight) {
      std::reverse(parts.begin(), parts.end());
    }
  } else {
    const size_t end = at + separator->bytes.size();
    parts = {Value(SubText(text, 0, at)), Value(separator),
             Value(SubText(text, end, text.bytes.size()))};
  }
  return MakeList(std::move(parts), List::Form::kTuple);
}

// str.startswith and str.endswith; the argument may be a tuple.
template <bool kAtEnd>
Result<Value> TextHasEdge(Evaluator& evaluator, const Value& self, const Args& args) {
  const bool is_tuple = args[0]->is_list() && args[0]->list()->form == List::Form::kTuple;
  const std::span<const Value> wanted = is_tuple ? std::span<const Value>(args[0]->list()->items)
                                                 : std::span<const Value>(args[0], 1);
  const std::string_view name = kAtEnd ? "endswith" : "startswith";
  const std::string_view whole = self.text().bytes;
  TRY_ASSIGN(const int64_t start, IntArgument(args[1], 0));
  if (start != 0 || IsGiven(args[2])) {
    return Fail(Code::kUnsupported, "the bounds of " + std::string(name) + "() are not supported");
  }
  for (const Value& edge : wanted) {
    TRY(evaluator.budget().Steps());
    if (!edge.is_string()) {
      return Raise(std::string(name) + " first arg must be str or a tuple of str, not " +
                   std::string(TypeName(edge)));
    }
    TRY(evaluator.budget().Scan(edge.text().bytes.size()));
    if (kAtEnd ? whole.ends_with(edge.text().bytes) : whole.starts_with(edge.text().bytes)) {
      return Value(true);
    }
  }
  return Value(false);
}

Result<Value> TextReplace(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef old_text, TextArgument(*args[0], "replace() argument 1"));
  TRY_ASSIGN(const TextRef new_text, TextArgument(*args[1], "replace() argument 2"));
  TRY_ASSIGN(const int64_t count, IntArgument(args[2], -1));
  return ReplaceText(evaluator.budget(), self.text(), *old_text, *new_text, count);
}

Result<Value> TextJoin(Evaluator& evaluator, const Value& self, const Args& args) {
  if (args[0]->is_undefined()) {
    return Value::String("");
  }
  return JoinTexts(evaluator.budget(), self.text(), *args[0], false);
}

Result<Value> TextFormat(Evaluator& evaluator, const Value& self, const Args& args) {
  return FormatBraces(evaluator, self.text(), args.all());
}

// The part of a text that find() and count() look at, and where it begins in code points.
struct Window {
  std::string_view bytes;
  int64_t start = 0;
};

Result<Window> TakeWindow(Evaluator& evaluator, const Value& self, const Value* maybe_start,
                          const Value* maybe_end) {
  const std::string_view bytes = self.text().bytes;
  if (!IsGiven(maybe_start) && !IsGiven(maybe_end)) {
    return Window{bytes, 0};
  }
  TRY(evaluator.budget().Decode(bytes.size()));
  const int64_t length = CodePoints(bytes);
  TRY_ASSIGN(int64_t start, IntArgument(maybe_start, 0));
  TRY_ASSIGN(int64_t end, IntArgument(maybe_end, length));
  start = std::clamp<int64_t>(start < 0 ? start + length : start, 0, length);
  end = std::clamp<int64_t>(end < 0 ? end + length : end, start, length);
  const size_t from = ByteOffset(bytes, start);
  return Window{bytes.substr(from, ByteOffset(bytes, end - start, from) - from), start};
}

template <bool kFromRight, bool kMustBeThere>
Result<Value> TextFind(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef wanted, TextArgument(*args[0], "find() argument 1"));
  TRY_ASSIGN(const Window window, TakeWindow(evaluator, self, args[1], args[2]));
  const size_t at =
      kFromRight ? RFindBytes(window.bytes, wanted->bytes) : FindBytes(window.bytes, wanted->bytes);
  if (at == std::string_view::npos) {
    return kMustBeThere ? Result<Value>(Raise("substring not found")) : Value(int64_t{-1});
  }
  return Value(window.start + CodePoints(window.bytes.substr(0, at)));
}

Result<Value> TextCount(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef wanted, TextArgument(*args[0], "count() argument 1"));
  TRY_ASSIGN(const Window window, TakeWindow(evaluator, self, args[1], args[2]));
  const int64_t count = CountBytes(window.bytes, wanted->bytes);
  TRY(evaluator.budget().Pieces(static_cast<size_t>(count)));
  return Value(count);
}

template <bool kSuffix>
Result<Value> TextRemoveEdge(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const TextRef edge, TextArgument(*args[0], "the argument of removeprefix()"));
  const Text& text = self.text();
  const size_t length = edge->bytes.size();
  TRY(evaluator.budget().Scan(length));
  if (kSuffix ? !text.bytes.ends_with(edge->bytes) : !text.bytes.starts_with(edge->bytes)) {
    return self;
  }
  return MakeText(evaluator.budget(), kSuffix ? SubText(text, 0, text.bytes.size() - length)
                                              : SubText(text, length, text.bytes.size()));
}

template <Pad kWhere>
Result<Value> TextPad(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const int64_t width, IntArgument(args[0], 0));
  TextRef fill = std::make_shared<const Text>(Text{" ", {}, false});
  if (args[1] != nullptr) {
    TRY_ASSIGN(fill, TextArgument(*args[1], "the fill character"));
    if (CodePoints(fill->bytes) != 1) {
      return Raise("The fill character must be exactly one character long");
    }
  }
  TRY(evaluator.budget().WriteRepeated(fill->bytes.size(),
                                       static_cast<size_t>(std::max<int64_t>(width, 0))));
  return MakeText(evaluator.budget(), PadText(self.text(), width, fill->bytes, kWhere));
}

Result<Value> TextZeroFill(Evaluator& evaluator, const Value& self, const Args& args) {
  TRY_ASSIGN(const int64_t width, IntArgument(args[0], 0));
  TRY(evaluator.budget().WriteRepeated(1, static_cast<size_t>(std::max<int64_t>(width, 0))));
  const Text& text = self.text();
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  TextBuilder builder;
  builder.Append(text, 0, sign);
  builder.Append(PadText(SubText(text, sign, text.bytes.size()), width - static_cast<int64_t>(sign),
                         "0", Pad::kLeft));
  return MakeText(evaluator.budget(), builder.Take());
}

// ---- predicates

// All characters are so, and there is one.
template <bool (*kHolds)(char32_t)>
Result<Value> TextAll(Evaluator&, const Value& self, const Args&) {
  const std::string_view bytes = self.text().bytes;
  char32_t c = 0;
  for (size_t i = 0; i < bytes.size();) {
    i += static_cast<size_t>(DecodeUtf8(bytes.substr(i), &c));
    if (!kHolds(c)) {
      return Value(false);
    }
  }
  return Value(!bytes.empty());
}

bool IsAlphanumeric(char32_t c) {
  return c != '_' && IsWordPart(c);
}

Result<Value> TextIsAscii(Evaluator&, const Value& self, const Args&) {
  const std::string& bytes = self.text().bytes;
  return Value(std::all_of(bytes.begin(), bytes.end(),
                           [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

Result<Value> TextIsPrintable(Evaluator& evaluator, const Value& self, const Args& args) {
  if (self.text().bytes.empty()) {
    return Value(true);
  }
  return TextAll<IsPrintable>(evaluator, self, args);
}

template <const char* kTest>
Result<Value> TextIsCase(Evaluator& evaluator, const Value& self, const Args&) {
  return evaluator.ApplyTest(kTest, self, {});
}

constexpr char kLowerTest[] = "lower";
constexpr char kUpperTest[] = "upper";

constexpr Builtin kMethods[] = {
    {"capitalize", "", TextCase<CaseOf::kCapitalize>},
    {"center", "width fillchar?", TextPad<Pad::kCenter>},
    {"count", "sub start? end?", TextCount, Charge::kScan},
    {"endswith", "suffix start? end?", TextHasEdge<true>, Charge::kItself},
    {"find", "sub start? end?", TextFind<false, false>, Charge::kScan},
    {"format", "*", TextFormat, Charge::kItself},
    {"index", "sub start? end?", TextFind<false, true>, Charge::kScan},
    {"isalnum", "", TextAll<IsAlphanumeric>},
    {"isalpha", "", TextAll<IsLetter>},
    {"isascii", "", TextIsAscii, Charge::kScan},
    {"isdecimal", "", TextAll<IsDecimal>},
    {"isdigit", "", TextAll<IsDigit>},
    {"islower", "", TextIsCase<kLowerTest>},
    {"isprintable", "", TextIsPrintable},
    {"isspace", "", TextAll<IsSpace>},
    {"isupper", "", TextIsCase<kUpperTest>},
    {"join", "iterable", TextJoin, Charge::kItself},
    {"ljust", "width fillchar?", TextPad<Pad::kRight>},
    {"lower", "", TextCase<CaseOf::kLower>},
    {"lstrip", "chars?", TextStrip<true, false>, Charge::kItself},
    {"partition", "sep", TextPartition<false>, Charge::kScan},
    {"removeprefix", "prefix", TextRemoveEdge<false>, Charge::kItself},
    {"removesuffix", "suffix", TextRemoveEdge<true>, Charge::kItself},
    {"replace", "old new count?", TextReplace, Charge::kScan},
    {"rfind", "sub start? end?", TextFind<true, false>, Charge::kScan},
    {"rindex", "sub start? end?", TextFind<true, true>, Charge::kScan},
    {"rjust", "width fillchar?", TextPad<Pad::kLeft>},
    {"rpartition", "sep", TextPartition<true>, Charge::kScan},
    {"rsplit", "sep? maxsplit?", TextSplit<true>, Charge::kScan},
    {"rstrip", "chars?", TextStrip<false, true>, Charge::kItself},
    {"split", "sep? maxsplit?", TextSplit<false>, Charge::kScan},
    {"splitlines", "keepends?", TextSplitLines},
    {"startswith", "prefix start? end?", TextHasEdge<false>, Charge::kItself},
    {"strip", "chars?", TextStrip<true, true>, Charge::kItself},
    {"swapcase", "", TextCase<CaseOf::kSwap>},
    {"title", "", TextCase<CaseOf::kTitle>},
    {"upper", "", TextCase<CaseOf::kUpper>},
    {"zfill", "width", TextZeroFill},
};
constexpr std::string_view kOtherMethods[] = {
    "casefold",  "encode",  "expandtabs", "format_map", "isidentifier",
    "isnumeric", "istitle", "maketrans",  "translate",
};

}  // namespace

std::vector<Builtin> AllTextMethods() {
  return {std::begin(kMethods), std::end(kMethods)};
}

const Builtin* FindTextMethod(std::string_view name, bool* is_known) {
  *is_known = std::find(std::begin(kOtherMethods), std::end(kOtherMethods), name) !=
              std::end(kOtherMethods);
  return FindIn(kMethods, name);
}

}  // namespace fak::text::jinja

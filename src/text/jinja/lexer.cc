#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/utf8.h"
#include "text/jinja/characters.h"

namespace fak::text::jinja {

namespace {

enum class Strip { kDefault, kAlways, kNever };  // what stands at a tag's edge: nothing, '-', '+'

// Line breaks become \n and the one that ends the template goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') {
    out.pop_back();
  }
  return out;
}

bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  Result<std::vector<Token>> Run() {
    while (pos_ < source_.size()) {
      TRY(LexRoot());
    }
    Push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const {
    return Fail(Code::kInvalidArgument, "line " + std::to_string(line_) + ": " + std::string(what));
  }
  bool At(std::string_view text) const { return source_.compare(pos_, text.size(), text) == 0; }
  char Peek(size_t offset = 0) const {
    return pos_ + offset < source_.size() ? source_[pos_ + offset] : '\0';
  }
  void Advance(size_t bytes) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                   source_.begin() + static_cast<std::ptrdiff_t>(pos_ + bytes), '\n'));
    pos_ += bytes;
  }
  Token& Push(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }
  size_t SpaceLength(size_t from) const;
  void SkipSpace() { Advance(SpaceLength(pos_)); }
  Strip TakeSign();
  void PushData(size_t begin, size_t end, Strip strip, bool lstrip);
  bool MatchRawBegin(size_t* length, Strip* strip) const;
  bool MatchEndRaw(size_t at, size_t* sign_at) const;
  void TrimBlockEnd();

  Result<void> LexRoot();
  Result<void> LexComment();
  Result<void> LexRaw();
  Result<void> LexTag(bool is_block);
  bool TryTagEnd(bool is_block);
  Result<void> LexTagToken();
  Result<void> LexNumber();
  Result<void> LexString();
  Result<void> LexEscape(std::string_view body, size_t* i, std::string* out) const;
  Result<void> LexOperator();
  Result<void> LexName();

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
  std::string open_brackets_;  // closers still expected, innermost last
};

size_t Lexer::SpaceLength(size_t from) const {
  size_t end = from;
  char32_t c = 0;
  while (end < source_.size()) {
    const int length = DecodeUtf8(std::string_view(source_).substr(end), &c);
    if (length == 0 || !IsSpace(c)) {
      break;
    }
    end += static_cast<size_t>(length);
  }
  return end - from;
}

Strip Lexer::TakeSign() {
  if (Peek() == '-' || Peek() == '+') {
    const Strip strip = Peek() == '-' ? Strip::kAlways : Strip::kNever;
    Advance(1);
    return strip;
  }
  return Strip::kDefault;
}

// Length of the text without the white space at its end.
size_t TrimmedLength(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
      --begin;
    }
    char32_t c = 0;
    if (DecodeUtf8(text.substr(begin, end - begin), &c) == 0 || !IsSpace(c)) {
      break;
    }
    end = begin;
  }
  return end;
}

// Text before a tag. The tag's '-' eats all white space before it; with lstrip_blocks, white space
// between the start of a line and the tag goes, unless the tag says '+' or prints.
void Lexer::PushData(size_t begin, size_t end, Strip strip, bool lstrip) {
  const std::string_view text = std::string_view(source_).substr(begin, end - begin);
  size_t length = text.size();
  if (strip == Strip::kAlways) {
    length = TrimmedLength(text);
  } else if (strip == Strip::kDefault && lstrip) {
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool starts_line = line_begin > 0 || begin == 0 || source_[begin - 1] == '\n';
    if (starts_line && SpaceLength(begin + line_begin) >= length - line_begin) {
      length = line_begin;
    }
  }
  if (length > 0) {
    Push(TokenKind::kData, std::string(text.substr(0, length)));
  }
}

void Lexer::TrimBlockEnd() {
  if (Peek() == '\n') {
    Advance(1);
  }
}

// {%[+-]? raw [-]?%} at pos_.
bool Lexer::MatchRawBegin(size_t* length, Strip* strip) const {
  size_t at = pos_ + 2;
  *strip = Strip::kDefault;
  if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) {
    *strip = source_[at] == '-' ? Strip::kAlways : Strip::kNever;
    ++at;
  }
  at += SpaceLength(at);
  if (source_.compare(at, 3, "raw") != 0) {
    return false;
  }
  at += 3;
  at += SpaceLength(at);
  if (source_.compare(at, 3, "-%}") == 0) {
    at += 3;
    at += SpaceLength(at);
  } else if (source_.compare(at, 2, "%}") == 0) {
    at += 2;
  } else {
    return false;
  }
  *length = at - pos_;
  return true;
}

Result<void> Lexer::LexRoot() {
  const size_t begin = pos_;
  size_t tag = begin;
  for (;; ++tag) {
    tag = source_.find('{', tag);
    if (tag == std::string::npos || tag + 1 >= source_.size()) {
      PushData(begin, source_.size(), Strip::kNever, false);
      Advance(source_.size() - begin);
      return {};
    }
    const char next = source_[tag + 1];
    if (next == '{' || next == '%' || next == '#') {
      break;
    }
  }
  pos_ = tag;  // the line is counted below, once the data token has the line it starts on
  const char kind = source_[tag + 1];
  size_t raw_length = 0;
  Strip strip = Strip::kDefault;
  const bool is_raw = kind == '%' && MatchRawBegin(&raw_length, &strip);
  if (!is_raw && tag + 2 < source_.size()) {
    const char sign = source_[tag + 2];
    strip = sign == '-' ? Strip::kAlways : sign == '+' ? Strip::kNever : Strip::kDefault;
  }
  PushData(begin, tag, strip, kind != '{');
  pos_ = begin;
  Advance(tag - begin);
  if (is_raw) {
    Advance(raw_length);
    return LexRaw();
  }
  Advance(2);
  TakeSign();
  if (kind == '#') {
    return LexComment();
  }
  Push(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kPrintBegin);
  return LexTag(kind == '%');
}

Result<void> Lexer::LexComment() {
  const size_t end = source_.find("#}", pos_);
  if (end == std::string::npos) {
    return Bad("the comment has no end");
  }
  const char sign = end > pos_ ? source_[end - 1] : '\0';
  Advance(end + 2 - pos_);
  if (sign == '-') {
    SkipSpace();
  } else if (sign != '+') {
    TrimBlockEnd();
  }
  return {};
}

// Whether the {% at `at` opens an endraw tag; *sign_at is then where its closing edge starts.
bool Lexer::MatchEndRaw(size_t at, size_t* sign_at) const {
  size_t next = at + 2;
  if (next < source_.size() && (source_[next] == '-' || source_[next] == '+')) {
    ++next;
  }
  next += SpaceLength(next);
  if (source_.compare(next, 6, "endraw") != 0) {
    return false;
  }
  next += 6;
  next += SpaceLength(next);
  *sign_at = next;
  const size_t sign = next < source_.size() && (source_[next] == '-' || source_[next] == '+');
  return source_.compare(next + sign, 2, "%}") == 0;
}

Result<void> Lexer::LexRaw() {
  const size_t begin = pos_;
  size_t edge = 0;
  size_t tag = source_.find("{%", begin);
  while (tag != std::string::npos && !MatchEndRaw(tag, &edge)) {
    tag = source_.find("{%", tag + 1);
  }
  if (tag == std::string::npos) {
    return Bad("the raw block has no end");
  }
  const char sign = source_[tag + 2];
  PushData(begin, tag,
           sign == '-'   ? Strip::kAlways
           : sign == '+' ? Strip::kNever
                         : Strip::kDefault,
           true);
  Advance(edge - begin);
  const Strip strip = TakeSign();
  Advance(2);
  if (strip == Strip::kAlways) {
    SkipSpace();
  } else if (strip == Strip::kDefault) {
    TrimBlockEnd();
  }
  return {};
}

// The closing edge of the tag, unless brackets are open (then "}}" ends dicts).
bool Lexer::TryTagEnd(bool is_block) {
  if (!open_brackets_.empty()) {
    return false;
  }
  const std::string_view edge = is_block ? "%}" : "}}";
  const TokenKind kind = is_block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd;
  const char sign = Peek();
  const bool has_sign = sign == '-' || (is_block && sign == '+');
  if (source_.compare(pos_ + (has_sign ? 1 : 0), 2, edge) != 0) {
    return false;
  }
  Push(kind);
  Advance(has_sign ? 3 : 2);
  if (sign == '-') {
    SkipSpace();
  } else if (is_block && !has_sign) {
    TrimBlockEnd();
  }
  return true;
}

Result<void> Lexer::LexTag(bool is_block) {
  open_brackets_.clear();
  while (true) {
    if (TryTagEnd(is_block)) {
      return {};
    }
    SkipSpace();
    if (pos_ >= source_.size()) {
      return {};  // the parser says which tag is open
    }
    if (TryTagEnd(is_block)) {
      return {};
    }
    TRY(LexTagToken());
  }
}

Result<void> Lexer::LexTagToken() {
  const char c = Peek();
  if (IsAsciiDigit(c)) {
    return LexNumber();
  }
  if (c == '"' || c == '\'') {
    return LexString();
  }
  char32_t code_point = 0;
  if (DecodeUtf8(std::string_view(source_).substr(pos_), &code_point) > 0 &&
      IsIdentifierStart(code_point)) {
    return LexName();
  }
  return LexOperator();
}

Result<void> Lexer::LexName() {
  const size_t begin = pos_;
  size_t end = pos_;
  char32_t c = 0;
  while (end < source_.size()) {
    const int length = DecodeUtf8(std::string_view(source_).substr(end), &c);
    if (length == 0 || !IsIdentifierPart(c)) {
      break;
    }
    end += static_cast<size_t>(length);
  }
  Push(TokenKind::kName, source_.substr(begin, end - begin));
  Advance(end - begin);
  return {};
}

Result<void> Lexer::LexOperator() {
  static constexpr std::string_view kTwo[] = {"**", "//", "==", "!=", ">=", "<="};
  static constexpr std::string_view kOne = "+-*/%~[](){}><=.:|,;";
  for (const std::string_view op : kTwo) {
    if (At(op)) {
      Push(TokenKind::kOperator, std::string(op));
      Advance(2);
      return {};
    }
  }
  const char c = Peek();
  if (kOne.find(c) == std::string_view::npos) {
    const auto length = std::max(1, Utf8SequenceLength(static_cast<unsigned char>(c)));
    return Bad("unexpected character '" + source_.substr(pos_, static_cast<size_t>(length)) + "'");
  }
  if (c == '(' || c == '[' || c == '{') {
    open_brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_brackets_.empty() || open_brackets_.back() != c) {
      return Bad(std::string("unexpected '") + c + "'");
    }
    open_brackets_.pop_back();
  }
  Push(TokenKind::kOperator, std::string(1, c));
  Advance(1);
  return {};
}

// Digits with single underscores between them, from `at`; returns the end.
size_t DigitsEnd(std::string_view source, size_t at, bool (*is_digit)(char)) {
  while (at < source.size()) {
    if (is_digit(source[at])) {
      ++at;
    } else if (source[at] == '_' && at + 1 < source.size() && is_digit(source[at + 1])) {
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

int PrefixBase(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') {
    return 10;
  }
  switch (text[1] | 0x20) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 10;
  }
}

bool IsHexDigit(char c) {
  return IsAsciiDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}
bool IsOctalDigit(char c) {
  return c >= '0' && c <= '7';
}
bool IsBinaryDigit(char c) {
  return c == '0' || c == '1';
}
bool IsZero(char c) {
  return c == '0';
}

Result<void> Lexer::LexNumber() {
  const std::string_view all = source_;
  const size_t begin = pos_;
  size_t end = DigitsEnd(all, begin, IsAsciiDigit);
  bool is_float = false;
  const auto digit_at = [&](size_t at) { return at < all.size() && IsAsciiDigit(all[at]); };
  const bool after_dot = begin > 0 && all[begin - 1] == '.';  // "a.0.1" is two subscripts
  if (!after_dot && end < all.size() && all[end] == '.' && digit_at(end + 1)) {
    end = DigitsEnd(all, end + 1, IsAsciiDigit);
    is_float = true;
  }
  if (!after_dot && end < all.size() && (all[end] | 0x20) == 'e') {
    const size_t sign = end + 1 < all.size() && (all[end + 1] == '+' || all[end + 1] == '-');
    if (digit_at(end + 1 + sign)) {
      end = DigitsEnd(all, end + 1 + sign, IsAsciiDigit);
      is_float = true;
    }
  }
  int base = 10;
  if (!is_float && all[begin] == '0') {
    base = PrefixBase(all.substr(begin, 3));
    bool (*is_digit)(char) = base == 16  ? IsHexDigit
                             : base == 8 ? IsOctalDigit
                             : base == 2 ? IsBinaryDigit
                                         : IsZero;
    end = DigitsEnd(all, base == 10 ? begin : begin + 2, is_digit);
    if (base != 10 && end == begin + 2) {
      base = 10;
      end = begin + 1;
    }
  }
  std::string digits(all.substr(begin, end - begin));
  std::erase(digits, '_');
  Token& token = Push(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits);
  if (is_float) {
    token.real = std::strtod(digits.c_str(), nullptr);
  } else {
    const char* first = digits.data() + (base == 10 ? 0 : 2);
    const char* last = digits.data() + digits.size();
    if (std::from_chars(first, last, token.integer, base).ec != std::errc()) {
      return Bad("the integer " + digits + " is out of range");
    }
  }
  Advance(end - begin);
  return {};
}

Result<void> Lexer::LexString() {
  const char quote = Peek();
  size_t end = pos_ + 1;
  while (end < source_.size() && source_[end] != quote) {
    end += source_[end] == '\\' ? 2 : 1;
  }
  if (end >= source_.size()) {
    return Bad("the string has no end");
  }
  const std::string_view body = std::string_view(source_).substr(pos_ + 1, end - pos_ - 1);
  std::string value;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\') {
      value += body[i++];
      continue;
    }
    TRY(LexEscape(body, &i, &value));
  }
  Push(TokenKind::kString, std::move(value));
  Advance(end + 1 - pos_);
  return {};
}

// Up to `digits_max` digits of the base at body[*i]; returns the value, moves *i.
uint32_t TakeDigits(std::string_view body, size_t* i, size_t digits_max, int base, size_t* count) {
  uint32_t value = 0;
  *count = 0;
  while (*count < digits_max && *i < body.size() &&
         (base == 16 ? IsHexDigit(body[*i]) : IsOctalDigit(body[*i]))) {
    const char c = body[*i];
    value = value * static_cast<uint32_t>(base) +
            static_cast<uint32_t>(IsAsciiDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    ++*i;
    ++*count;
  }
  return value;
}

// An escape as Python's unicode-escape reads it. A surrogate pair makes one character (Python keeps
// two and then can't write them).
Result<void> Lexer::LexEscape(std::string_view body, size_t* i, std::string* out) const {
  static constexpr std::string_view kPlain = "\\'\"abfnrtv";
  static constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
  const char c = body[*i + 1];
  *i += 2;
  if (c == '\n') {
    return {};
  }
  if (const size_t plain = kPlain.find(c); plain != std::string_view::npos) {
    *out += kMeaning[plain];
    return {};
  }
  size_t count = 0;
  if (IsOctalDigit(c)) {
    --*i;
    AppendUtf8(*out, TakeDigits(body, i, 3, 8, &count));
    return {};
  }
  const size_t wanted = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (wanted == 0) {
    if (c == 'N') {
      return Fail(Code::kUnsupported,
                  "line " + std::to_string(line_) + ": the string escape \\N is not supported");
    }
    *out += '\\';
    *out += c;
    return {};
  }
  uint32_t value = TakeDigits(body, i, wanted, 16, &count);
  bool is_valid = count == wanted && value <= 0x10FFFF;
  if (is_valid && value >= 0xD800 && value < 0xDC00 && body.substr(*i, 2) == "\\u") {
    *i += 2;
    const uint32_t low = TakeDigits(body, i, 4, 16, &count);
    is_valid = count == 4 && low >= 0xDC00 && low < 0xE000;
    value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
  }
  if (!is_valid || (value >= 0xD800 && value < 0xE000)) {
    return Bad(std::string("bad string escape \\") + c);
  }
  AppendUtf8(*out, value);
  return {};
}

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace fak::text::jinja

#include "base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace fak {
namespace {

template <class T>
void AppendNumber(std::string& out, T value) {
  std::array<char, 32> buffer;  // the longest double is 24 characters
  const auto done = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), done.ptr);
}

template <class T>
std::string NumberToText(T value) {
  std::string text;
  AppendNumber(text, value);
  return text;
}

// Characters that can't stand in a string literal as they are.
bool NeedsEscape(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

// Of eight characters at once. A byte less than another, and a byte that is zero, without a branch:
// Mycroft's tests, in "Bit Twiddling Hacks" (Anderson).
bool NoneNeedsEscape(const char* eight) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  constexpr uint64_t kHighs = 0x8080808080808080u;
  uint64_t word = 0;
  std::memcpy(&word, eight, sizeof word);
  const uint64_t quote = word ^ (kOnes * '"');
  const uint64_t backslash = word ^ (kOnes * '\\');
  const uint64_t found = ((word - kOnes * 0x20) & ~word) | ((quote - kOnes) & ~quote) |
                         ((backslash - kOnes) & ~backslash);
  return (found & kHighs) == 0;
}

void AppendEscape(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u00";
  out += kDigits[static_cast<unsigned char>(c) >> 4];
  out += kDigits[static_cast<unsigned char>(c) & 15];
}

// Writes a tree; `indent` < 0 means compact.
class Printer {
 public:
  Printer(std::string& out, bool pretty) : out_(out), pretty_(pretty) {}

  void Print(const Json& value, size_t level) {
    switch (value.kind()) {
      case Json::Kind::kNull: out_ += "null"; return;
      case Json::Kind::kBool: out_ += value.boolean() ? "true" : "false"; return;
      case Json::Kind::kNumber: out_ += value.number_text(); return;
      case Json::Kind::kString: AppendJsonString(out_, value.string()); return;
      case Json::Kind::kArray: PrintArray(value.array(), level); return;
      case Json::Kind::kObject: PrintObject(value.object(), level); return;
    }
  }

 private:
  void PrintArray(const Json::Array& items, size_t level) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      StartItem(i == 0, level + 1);
      Print(items[i], level + 1);
    }
    End(']', items.empty(), level);
  }

  void PrintObject(const Json::Object& members, size_t level) {
    out_ += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      StartItem(i == 0, level + 1);
      AppendJsonString(out_, members[i].first);
      out_ += pretty_ ? ": " : ":";
      Print(members[i].second, level + 1);
    }
    End('}', members.empty(), level);
  }

  void StartItem(bool first, size_t level) {
    if (!first) {
      out_ += ',';
    }
    Break(level);
  }

  void End(char bracket, bool empty, size_t level) {
    if (!empty) {
      Break(level);
    }
    out_ += bracket;
  }

  void Break(size_t level) {
    if (pretty_) {
      out_ += '\n';
      out_.append(2 * level, ' ');
    }
  }

  std::string& out_;
  bool pretty_;
};

}  // namespace

Json::Json(int64_t value) : kind_(Kind::kNumber), text_(NumberToText(value)) {}
Json::Json(uint64_t value) : kind_(Kind::kNumber), text_(NumberToText(value)) {}
Json::Json(double value) {
  if (std::isfinite(value)) {
    kind_ = Kind::kNumber;
    text_ = NumberToText(value);
  }
}

Json Json::NumberText(std::string text) {
  Json json;
  json.kind_ = Kind::kNumber;
  json.text_ = std::move(text);
  return json;
}

bool Json::boolean() const {
  DCHECK(is_bool());
  return bool_;
}
const std::string& Json::string() const {
  DCHECK(is_string());
  return text_;
}
const Json::Array& Json::array() const {
  DCHECK(is_array());
  return array_;
}
Json::Array& Json::array() {
  DCHECK(is_array());
  return array_;
}
const Json::Object& Json::object() const {
  DCHECK(is_object());
  return object_;
}
Json::Object& Json::object() {
  DCHECK(is_object());
  return object_;
}
const std::string& Json::number_text() const {
  DCHECK(is_number());
  return text_;
}

double Json::number() const {
  DCHECK(is_number());
  double value = 0;
  const auto done = std::from_chars(text_.data(), text_.data() + text_.size(), value);
  // from_chars leaves the value alone when it is out of range; strtod gives 0 or infinity. The
  // program never leaves the "C" locale.
  return done.ec == std::errc() ? value : std::strtod(text_.c_str(), nullptr);
}

std::optional<int64_t> Json::AsInt() const {
  if (!is_number()) {
    return std::nullopt;
  }
  int64_t value = 0;
  const char* const end = text_.data() + text_.size();
  const auto done = std::from_chars(text_.data(), end, value);
  if (done.ec == std::errc() && done.ptr == end) {
    return value;
  }
  // "1.0" and "1e3" are integers too, as far as a double holds integers exactly.
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  const double real = number();
  if (done.ec == std::errc() && std::trunc(real) == real && std::abs(real) <= kExactMax) {
    return static_cast<int64_t>(real);
  }
  return std::nullopt;
}

const Json* Json::Find(std::string_view key) const {
  const auto found = std::find_if(object_.rbegin(), object_.rend(),
                                  [key](const Member& member) { return member.first == key; });
  return found == object_.rend() ? nullptr : &found->second;
}

Json* Json::Find(std::string_view key) {
  return const_cast<Json*>(static_cast<const Json*>(this)->Find(key));
}

void Json::Set(std::string_view key, Json value) {
  DCHECK(is_object());
  bool found = false;
  for (Member& member : object_) {
    if (member.first == key) {
      member.second = value;
      found = true;
    }
  }
  if (!found) {
    object_.emplace_back(std::string(key), std::move(value));
  }
}

bool Json::Remove(std::string_view key) {
  return std::erase_if(object_, [key](const Member& member) { return member.first == key; }) > 0;
}

std::string Json::Dump() const {
  std::string out;
  DumpTo(out);
  return out;
}

void Json::DumpTo(std::string& out) const {
  Printer(out, /*pretty=*/false).Print(*this, 0);
}

std::string Json::Pretty() const {
  std::string out;
  Printer(out, /*pretty=*/true).Print(*this, 0);
  return out;
}

bool operator==(const Json& a, const Json& b) {
  if (a.kind_ != b.kind_) {
    return false;
  }
  switch (a.kind_) {
    case Json::Kind::kNull: return true;
    case Json::Kind::kBool: return a.bool_ == b.bool_;
    case Json::Kind::kNumber: return a.text_ == b.text_ || a.number() == b.number();
    case Json::Kind::kString: return a.text_ == b.text_;
    case Json::Kind::kArray: return a.array_ == b.array_;
    case Json::Kind::kObject: return a.object_ == b.object_;
  }
  return false;
}

std::string_view KindName(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::kNull: return "null";
    case Json::Kind::kBool: return "boolean";
    case Json::Kind::kNumber: return "number";
    case Json::Kind::kString: return "string";
    case Json::Kind::kArray: return "array";
    case Json::Kind::kObject: return "object";
  }
  return "null";
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    while (text.size() - i > sizeof(uint64_t) && NoneNeedsEscape(text.data() + i)) {
      i += sizeof(uint64_t);
    }
    if (NeedsEscape(text[i])) {
      out.append(text, copied, i - copied);
      AppendEscape(out, text[i]);
      copied = i + 1;
    }
  }
  out.append(text, copied, text.size() - copied);
  out += '"';
}

void JsonWriter::Separate() {
  if (need_comma_) {
    out_ += ',';
  }
  need_comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_ += '{';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  out_ += '}';
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_ += '[';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  out_ += ']';
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  AppendJsonString(out_, key);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  AppendJsonString(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) {
    return Null();
  }
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  if (!std::isfinite(value)) {
    return Null();
  }
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  return Raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::Null() {
  return Raw("null");
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace fak

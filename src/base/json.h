#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fak {

// An ordered JSON value: objects keep the order and the duplicates of their keys, numbers keep
// the text they came as ("1.0" stays "1.0"), so that a document can pass through us untouched.
// Plain value type; copying is deep. Not for hot paths: those read with simdjson directly and
// write with JsonWriter.
class Json {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}                                     // NOLINT(google-explicit-constructor)
  Json(bool value) : kind_(Kind::kBool), bool_(value) {}      // NOLINT(google-explicit-constructor)
  Json(int value) : Json(static_cast<int64_t>(value)) {}      // NOLINT(google-explicit-constructor)
  Json(int64_t value);                                        // NOLINT(google-explicit-constructor)
  Json(uint64_t value);                                       // NOLINT(google-explicit-constructor)
  Json(double value);                                         // NOLINT(google-explicit-constructor)
  Json(const char* value) : Json(std::string(value)) {}       // NOLINT(google-explicit-constructor)
  Json(std::string_view value) : Json(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Json(std::string value) : kind_(Kind::kString), text_(std::move(value)) {}  // NOLINT
  Json(Array value) : kind_(Kind::kArray), array_(std::move(value)) {}        // NOLINT
  Json(Object value) : kind_(Kind::kObject), object_(std::move(value)) {}     // NOLINT

  // A number that keeps this text. The text must be a valid JSON number.
  static Json NumberText(std::string text);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  // A number without fraction and exponent that fits int64.
  bool is_integer() const { return AsInt().has_value(); }

  // Precondition of the reference accessors: the kind matches (DCHECKed).
  bool boolean() const;
  const std::string& string() const;
  const Array& array() const;
  Array& array();
  const Object& object() const;
  Object& object();
  const std::string& number_text() const;
  double number() const;                 // nearest double
  std::optional<int64_t> AsInt() const;  // nullopt unless an integer in range ("1.0" is one)

  // The last member of that name (the winner among duplicates, as in every common parser), or
  // null when absent or when this is no object.
  const Json* Find(std::string_view key) const;
  Json* Find(std::string_view key);
  // Replaces the value of every member of that name, or appends one.
  void Set(std::string_view key, Json value);
  // Removes every member of that name; returns whether there was one.
  bool Remove(std::string_view key);

  // Compact JSON text; numbers as they came, strings escaped minimally (UTF-8 stays).
  std::string Dump() const;
  // The same with two blanks of indent a level, for people.
  std::string Pretty() const;
  void DumpTo(std::string& out) const;

  // Structural equality; numbers are equal when their texts or their values are.
  friend bool operator==(const Json& a, const Json& b);

 private:
  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  std::string text_;  // string, or number text
  Array array_;
  Object object_;
};

// Parses one whole document. Errors (kInvalidArgument) name the byte offset. Bounds: depth
// kJsonDepthMax; invalid UTF-8 and trailing bytes are errors; NUL and lone surrogates in escapes
// are handled as the JSON standard says (lone surrogates are errors).
[[nodiscard]] Result<Json> ParseJson(std::string_view text);

std::string_view KindName(Json::Kind kind);

// Append-only writer for known shapes on hot paths: no tree, no allocation beyond the string.
// Commas are placed by the writer. Key()/values in the order they shall appear.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);  // must be UTF-8; escapes as Dump() does
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Double(double value);  // shortest text that reads back the same; NaN, inf -> null
  JsonWriter& Float(float value);    // the same for float
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);  // a value already in JSON text

 private:
  void Separate();
  std::string& out_;
  bool need_comma_ = false;
};

// Appends the JSON string literal of a UTF-8 text, quotes included.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace fak

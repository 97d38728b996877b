#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_view.h"

// Members of documents that other people's engines send: a wrong type reads as absent. Pure.
namespace fak::ride {

inline std::string StringAt(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->is_string() ? value->string() : std::string();
}

inline int32_t IntAt(const Json& object, std::string_view key, int32_t absent) {
  const Json* value = object.Find(key);
  const auto number = value != nullptr && value->is_number() ? value->AsInt() : std::nullopt;
  const bool fits = number && *number >= std::numeric_limits<int32_t>::min() &&
                    *number <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(*number) : absent;
}

// A number of things: what is below 0 reads as absent too.
inline int32_t CountAt(const Json& object, std::string_view key, int32_t absent) {
  const int32_t count = IntAt(object, key, absent);
  return count < 0 ? absent : count;
}

// The object of that name, or null (a Json) when there is none.
inline const Json& ObjectAt(const Json& object, std::string_view key) {
  static const Json kNone;
  const Json* value = object.Find(key);
  return value != nullptr && value->is_object() ? *value : kNone;
}

// The elements of the list of that name, or none.
inline const Json::Array& ArrayAt(const Json& object, std::string_view key) {
  static const Json::Array kNone;
  const Json* value = object.Find(key);
  return value != nullptr && value->is_array() ? value->array() : kNone;
}

// The same of a view.
inline std::string StringAt(const JsonView& object, std::string_view key) {
  return std::string(object.Find(key).string());
}

inline int32_t IntOf(const JsonView& value, int32_t absent) {
  const auto number = value.AsInt();
  const bool fits = number && *number >= std::numeric_limits<int32_t>::min() &&
                    *number <= std::numeric_limits<int32_t>::max();
  return fits ? static_cast<int32_t>(*number) : absent;
}

inline int32_t IntAt(const JsonView& object, std::string_view key, int32_t absent) {
  return IntOf(object.Find(key), absent);
}

inline int32_t CountAt(const JsonView& object, std::string_view key, int32_t absent) {
  const int32_t count = IntAt(object, key, absent);
  return count < 0 ? absent : count;
}

inline JsonView ObjectOf(const JsonView& value) {
  return value.is_object() ? value : JsonView();
}
inline JsonView ObjectAt(const JsonView& object, std::string_view key) {
  return ObjectOf(object.Find(key));
}

inline JsonView ArrayOf(const JsonView& value) {
  return value.is_array() ? value : JsonView();
}
inline JsonView ArrayAt(const JsonView& object, std::string_view key) {
  return ArrayOf(object.Find(key));
}

}  // namespace fak::ride

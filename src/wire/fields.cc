#include "wire/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/limits.h"
#include "base/strings.h"

namespace fak::wire {

const Json* Fields::Take(std::string_view name) {
  known_.emplace_back(name);
  const Json* value = document_.Find(name);
  return failed_ || value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::Fail(std::string_view field, std::string what) {
  if (!failed_) {
    failed_ = true;
    error_ = {Code::kInvalidArgument, std::string(field) + ": " + std::move(what),
              std::string(field)};
  }
}

void Fields::WrongType(std::string_view name, std::string_view wanted, const Json& got) {
  Fail(name, "must be " + std::string(wanted) + ", not " + std::string(KindName(got.kind())));
}

Status Fields::status() const {
  if (failed_) {
    return fak::Fail(error_);
  }
  return {};
}

std::optional<bool> Fields::Bool(std::string_view name) {
  const Json* value = Take(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_bool()) {
    WrongType(name, "a boolean", *value);
    return std::nullopt;
  }
  return value->boolean();
}

std::optional<std::string> Fields::String(std::string_view name) {
  const Json* value = Take(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    WrongType(name, "a string", *value);
    return std::nullopt;
  }
  return value->string();
}

// The integer that stands there, if it is one; `range` says in words what it may be.
std::optional<int64_t> Fields::WholeNumber(std::string_view name, const std::string& range) {
  const Json* value = Take(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    WrongType(name, "an integer", *value);
    return std::nullopt;
  }
  const std::optional<int64_t> number = value->AsInt();
  if (!number) {
    Fail(name, "must be an integer, " + range + ", not " + std::string(value->number_text()));
  }
  return number;
}

std::optional<int64_t> Fields::Int(std::string_view name, int64_t min, int64_t max) {
  const std::string range = std::to_string(min) + " to " + std::to_string(max);
  const std::optional<int64_t> number = WholeNumber(name, range);
  if (number && (*number < min || *number > max)) {
    Fail(name, "must be " + range + ", not " + std::to_string(*number));
    return std::nullopt;
  }
  return number;
}

std::optional<float> Fields::Float(std::string_view name, const NumberRange& range) {
  const Json* value = Take(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    WrongType(name, "a number", *value);
    return std::nullopt;
  }
  const double number = value->number();
  // What rounds to nothing is as much out as nothing is.
  if (!range.Has(number) || !range.Has(static_cast<float>(number))) {
    Fail(name,
         "must be " + range.TextAgainst(number) + ", not " + std::string(value->number_text()));
    return std::nullopt;
  }
  return static_cast<float>(number);
}

std::optional<int32_t> Fields::Int(std::string_view name, const NumberRange& range) {
  const std::optional<int64_t> number = WholeNumber(name, range.Text());
  if (number && !range.Has(static_cast<double>(*number))) {
    Fail(name, "must be " + range.Text() + ", not " + std::to_string(*number));
    return std::nullopt;
  }
  return number ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

std::optional<int32_t> Fields::IntOrMost(std::string_view name, int32_t least) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const Json* value = document_.Find(name);
  const double real = value != nullptr && value->is_number() ? value->number() : 0.0;
  if (real > kMost && std::trunc(real) == real) {
    return Take(name) == nullptr ? std::nullopt : std::optional(kMost);
  }
  const std::string range = std::to_string(least) + " or more";
  const std::optional<int64_t> number = WholeNumber(name, range);
  if (number && *number < least) {
    Fail(name, "must be " + range + ", not " + std::to_string(*number));
    return std::nullopt;
  }
  return number ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

std::vector<std::string> Fields::Unknown() const {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : document_.object()) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      unknown.push_back(name);
    }
  }
  return unknown;
}

Status Fields::RefuseUnknown() const {
  const std::vector<std::string> unknown = Unknown();
  if (unknown.empty()) {
    return {};
  }
  return fak::Fail(Code::kInvalidArgument, "not known here: " + Join(unknown, ", "),
                   unknown.front());
}

std::optional<int32_t> TokenIdOf(int64_t value) {
  const bool fits = value >= 0 && value < int64_t{limits::kVocabularyMax};
  return fits ? std::optional(static_cast<int32_t>(value)) : std::nullopt;
}

std::optional<int32_t> TokenIdOf(const Json& value) {
  const std::optional<int64_t> number = value.is_number() ? value.AsInt() : std::nullopt;
  return number ? TokenIdOf(*number) : std::nullopt;
}

std::optional<std::vector<int32_t>> TokenIdsOf(const Json& value) {
  if (!value.is_array()) {
    return std::nullopt;
  }
  std::vector<int32_t> ids;
  ids.reserve(value.array().size());
  for (const Json& element : value.array()) {
    const std::optional<int32_t> id = TokenIdOf(element);
    if (!id) {
      return std::nullopt;
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace fak::wire

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/number_range.h"
#include "base/result.h"

namespace fak::wire {

// Reads the fields of a request document one by one, so that every error names its field and every
// field that nobody asked for is known at the end. A field that is null counts as absent, as every
// server of this wire has it. The first error sticks; later reads give "absent".
// Borrows the document. Not thread-safe.
class Fields {
 public:
  // document must be an object.
  explicit Fields(const Json& document) : document_(document) {}

  // The value, or null when absent. Marks the field as known.
  const Json* Take(std::string_view name);

  std::optional<bool> Bool(std::string_view name);
  std::optional<std::string> String(std::string_view name);
  // Bounds are inclusive; the error says them.
  std::optional<int64_t> Int(std::string_view name, int64_t min, int64_t max);
  std::optional<float> Float(std::string_view name, const NumberRange& range);
  std::optional<int32_t> Int(std::string_view name, const NumberRange& range);
  // For counts that are lowered later to what there is: more than an int32_t holds is its most.
  std::optional<int32_t> IntOrMost(std::string_view name, int32_t least);

  void Fail(std::string_view field, std::string what);
  bool ok() const { return !failed_; }
  Status status() const;

  // Members of the document that were never taken, in order.
  std::vector<std::string> Unknown() const;
  // kInvalidArgument naming those, for calls where what is overlooked does harm.
  [[nodiscard]] Status RefuseUnknown() const;

 private:
  std::optional<int64_t> WholeNumber(std::string_view name, const std::string& range);
  void WrongType(std::string_view name, std::string_view wanted, const Json& got);

  const Json& document_;
  std::vector<std::string> known_;
  bool failed_ = false;
  Error error_;
};

// A token id out of a document: 0 to below kVocabularyMax, the bound of every vocabulary. Whether
// this model has such a token is the engine's to say.
std::optional<int32_t> TokenIdOf(const Json& value);
std::optional<int32_t> TokenIdOf(int64_t value);
// A list of them; nullopt when `value` is none.
std::optional<std::vector<int32_t>> TokenIdsOf(const Json& value);

}  // namespace fak::wire

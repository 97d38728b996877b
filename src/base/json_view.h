// Hot path: bench/micro/relay_bench.cc.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace fak {

// A value of a document that somebody else holds, a Json or a JsonReader, or no value at all: a
// member that isn't there, or isn't looked for. What a value isn't reads as empty. Valid as long as
// the document is, unchanged. Cheap to copy.
class JsonView {
 public:
  class Iterator;

  JsonView() = default;
  JsonView(const Json& value) : tree_(&value) {}  // NOLINT(google-explicit-constructor)

  // Whether there is a value.
  explicit operator bool() const { return tree_ != nullptr || on_tape_; }
  bool is_null() const;
  bool is_number() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  std::string_view string() const;       // empty unless a string
  std::optional<int64_t> AsInt() const;  // as Json's; nullopt unless a number
  // As Json's: the last member of that name.
  JsonView Find(std::string_view key) const;
  // Find() of each key, in one walk over the members. `found` has room for as many.
  void FindEach(std::span<const std::string_view> keys, std::span<JsonView> found) const;
  // The same, for `const auto [a, b] = view.FindEach({"a", "b"})`.
  template <size_t kCount>
  std::array<JsonView, kCount> FindEach(const std::string_view (&keys)[kCount]) const {
    std::array<JsonView, kCount> found;
    FindEach(keys, found);
    return found;
  }
  // The elements of an array; of anything else none.
  Iterator begin() const;
  Iterator end() const;
  bool empty() const;

  // A copy that lives on. A number that came as "1.0" may read "1.0" or "1" there.
  Json Copy() const;

 private:
  friend class JsonReader;
  // simdjson's own reference into its tape, which only json_view.cc knows.
  using Place = std::array<uint64_t, 2>;
  explicit JsonView(const Place& place) : on_tape_(true), place_(place) {}

  const Json* tree_ = nullptr;
  bool on_tape_ = false;
  Place place_{};
};

class JsonView::Iterator {
 public:
  JsonView operator*() const;
  Iterator& operator++();
  bool operator!=(const Iterator& other) const {
    return tree_ != other.tree_ || place_ != other.place_;
  }

 private:
  friend class JsonView;
  const Json* tree_ = nullptr;
  Place place_{};
};

// Reads one document after the other without an allocation for one that is small and plain. Takes
// exactly what ParseJson() takes, with its errors. Keeps the memory of a small document, some 10
// times its size. Not thread-safe.
class JsonReader {
 public:
  JsonReader();
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // The view is valid until the next call.
  [[nodiscard]] Result<JsonView> Read(std::string_view text);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fak

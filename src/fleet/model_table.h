#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace fak::fleet {

// Its tables in the TOML file.
inline constexpr std::string_view kModelKey = "model";
inline constexpr size_t kModelEntriesMax = 256;
inline constexpr size_t kModelTargetsMax = 16;    // of one entry, and as many fallbacks
inline constexpr size_t kModelsOfRequestMax = 8;  // that one request is tried with

// What clients may ask for beside what replicas list, and which models that means. Immutable once
// read; any thread.
//   [[model]]
//   name = "gpt-4"                         # as clients have it
//   to = [{ model = "qwen-72b", weight = 95 }, { model = "qwen-72b-next", weight = 5 }]
//   fallback = ["qwen-7b"]                 # in this order, where nobody can take it
// Without `to` it is the model of that name that replicas list; in `to` its own name means that one
// too. A `model` or a fallback may be another entry's name.
class ModelTable {
 public:
  struct Target {
    std::string model;
    double weight = 1;  // beside those of the others; 0: none
    bool operator==(const Target&) const = default;
  };
  struct Entry {
    std::string name;
    std::vector<Target> to;
    std::vector<std::string> fallback;
    bool operator==(const Entry&) const = default;
  };

  // maybe_known: all models that any replica can be asked for; nullopt: that can't be told. Errors
  // have file, line and column: kInvalidArgument for a model that is neither among these nor an
  // entry, for entries that lead back to themselves, for two of one name, and for bounds.
  [[nodiscard]] static Result<ModelTable> Read(
      const ConfigTable& file, const std::optional<std::vector<std::string>>& maybe_known);

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }
  // Null: no entry has that name, and it means itself.
  const Entry* Find(std::string_view name) const;
  // The models to try, the best first, at least one. What has the same `conversation` gets the same
  // ones; where weights change, no more conversations move than have to.
  std::vector<std::string> PlanFor(std::string_view name, uint64_t conversation) const;
  // All that it stands for when all is well, the heaviest first; itself where it is no entry.
  std::vector<std::string> TargetsOf(const std::string& name) const;

 private:
  void Expand(const std::string& name, uint64_t conversation, std::vector<std::string>& expanded,
              std::vector<std::string>& plan) const;
  std::vector<Entry> entries_;
};

}  // namespace fak::fleet

#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fak {

namespace internal {
struct ConfigNode;
}

// A table of a TOML 1.0 file, read with types. Getters give nullopt for an absent key and
// kInvalidArgument for a value of another type; every error starts with "file:line:column:" and
// has the dotted key as its field. Immutable, cheap to copy, any thread.
class ConfigTable {
 public:
  // `name` stands for the file in errors.
  [[nodiscard]] static Result<ConfigTable> Parse(std::string_view text, const std::string& name);
  [[nodiscard]] static Result<ConfigTable> Load(const std::string& path);

  [[nodiscard]] Result<std::optional<std::string>> String(std::string_view key) const;
  [[nodiscard]] Result<std::optional<int64_t>> Int(std::string_view key) const;
  // Takes integers too.
  [[nodiscard]] Result<std::optional<double>> Float(std::string_view key) const;
  [[nodiscard]] Result<std::optional<bool>> Bool(std::string_view key) const;
  // An array of strings.
  [[nodiscard]] Result<std::optional<std::vector<std::string>>> Strings(std::string_view key) const;
  // A value, or an array of values, of whatever type, as one would type it: "true", "8000", "0.5".
  [[nodiscard]] Result<std::optional<std::vector<std::string>>> Texts(std::string_view key) const;
  [[nodiscard]] Result<std::optional<ConfigTable>> Table(std::string_view key) const;
  // An array of tables ([[key]]); empty when absent.
  [[nodiscard]] Result<std::vector<ConfigTable>> Tables(std::string_view key) const;

  // Keys in alphabetical order.
  std::vector<std::string> Keys() const;
  // Fails at the first key that is not among these: a typo shall not pass for a default.
  [[nodiscard]] Status RefuseUnknownKeys(std::initializer_list<std::string_view> known) const;
  // kInvalidArgument at the place of this key (of the table when absent), for checks of the
  // caller's own.
  Error ErrorAt(std::string_view key, std::string_view what) const;

 private:
  explicit ConfigTable(std::shared_ptr<const internal::ConfigNode> node);
  const internal::ConfigNode* Find(std::string_view key) const;

  std::shared_ptr<const internal::ConfigNode> node_;
};

}  // namespace fak

#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fak::wire {

// The header fields of one HTTP message, in order, duplicates kept, names compared without case.
// Plain value; lookups are linear (a head has some ten fields).
class HttpHeaders {
 public:
  using Field = std::pair<std::string, std::string>;

  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<Field> fields) : fields_(fields) {}

  void Add(std::string name, std::string value);
  // Replaces all of that name by one, or adds it.
  void Set(std::string_view name, std::string value);
  bool Remove(std::string_view name);

  // The first of that name.
  std::optional<std::string_view> Get(std::string_view name) const;
  bool Has(std::string_view name) const { return Get(name).has_value(); }
  size_t Count(std::string_view name) const;
  // Whether a comma-separated list field (all lines of it) has this token, without case.
  bool HasToken(std::string_view name, std::string_view token) const;

  // Removes what concerns one connection only: Connection and what it names, Keep-Alive,
  // Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Trailer, Transfer-Encoding,
  // Upgrade (RFC 9110 7.6.1).
  void RemoveHopByHop();

  size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

}  // namespace fak::wire

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/hash.h"
#include "base/result.h"
#include "wire/http_headers.h"

namespace fak::gateway {

// What a tenant may use, whichever of its keys comes. 0: no limit.
struct KeyLimits {
  int32_t max_concurrency = 0;  // requests open at once
  int32_t max_streams = 0;      // of these, those that are streamed
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;  // of prompts and answers
  bool operator==(const KeyLimits&) const = default;
};

// Who a key stands for.
struct Tenant {
  std::string name;
  double weight = 1.0;
  bool admin = false;
  KeyLimits limits = {};
};

// The keys that may use this server, as SHA-256 digests: the keys themselves are never kept.
// Immutable once filled; any thread.
class KeyRing {
 public:
  // A key given in the clear, on the command line or in the environment: an admin's.
  void Add(std::string_view key, Tenant tenant);
  // keys.toml: [[key]] with name, hash = "sha256:<64 hex digits>", and optionally weight, admin
  // and the limits of KeyLimits, which are the same for all keys of a name. A name that a key added
  // before has is refused: the two would be one tenant.
  // Errors have file, line and column.
  [[nodiscard]] Status AddFile(const std::string& path);
  [[nodiscard]] Status AddKeys(const ConfigTable& file);  // that was read already

  bool empty() const { return entries_.empty(); }
  // The tenant of the key in "Authorization: Bearer" or "x-api-key". nullopt: no key, or a wrong
  // one. Takes the same time wherever a wrong key differs.
  std::optional<Tenant> Find(const wire::HttpHeaders& headers) const;
  std::vector<Tenant> Tenants() const;  // a row a key
  // Whether a key is that tenant's.
  bool Has(std::string_view tenant) const;

 private:
  struct Entry {
    Sha256::Digest digest;
    Tenant tenant;
  };
  std::vector<Entry> entries_;
};

}  // namespace fak::gateway

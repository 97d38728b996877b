#include "gateway/keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/hex.h"
#include "base/limits.h"
#include "base/strings.h"

namespace fak::gateway {
namespace {

// Every byte is looked at, so that time says nothing about where digests differ.
bool SameDigest(const Sha256::Digest& a, const Sha256::Digest& b) {
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned>(a[i] ^ b[i]);
  }
  return different == 0;
}

std::string_view KeyIn(const wire::HttpHeaders& headers) {
  if (const auto authorization = headers.Get("authorization")) {
    constexpr std::string_view kScheme = "bearer ";
    if (authorization->size() > kScheme.size() &&
        EqualsIgnoringCase(authorization->substr(0, kScheme.size()), kScheme)) {
      return Trim(authorization->substr(kScheme.size()));
    }
  }
  return Trim(headers.Get("x-api-key").value_or(""));
}

// 0: none is given.
Result<int32_t> ReadMost(const ConfigTable& key, std::string_view name, std::string_view of) {
  TRY_ASSIGN(const auto most, key.Int(name));
  if (most && (*most < 1 || *most > std::numeric_limits<int32_t>::max())) {
    return Fail(key.ErrorAt(name, "must be a number of " + std::string(of) + ", from 1"));
  }
  return static_cast<int32_t>(most.value_or(0));
}

Result<KeyLimits> ReadLimits(const ConfigTable& key) {
  KeyLimits limits;
  TRY_ASSIGN(limits.max_concurrency, ReadMost(key, "max-concurrency", "requests"));
  TRY_ASSIGN(limits.max_streams, ReadMost(key, "max-streams", "streams"));
  TRY_ASSIGN(limits.requests_per_minute, ReadMost(key, "requests-per-minute", "requests"));
  TRY_ASSIGN(limits.tokens_per_minute, ReadMost(key, "tokens-per-minute", "tokens"));
  return limits;
}

// The first limit of which the two say different things; empty: none.
std::string_view DifferentLimit(const KeyLimits& a, const KeyLimits& b) {
  return a.max_concurrency != b.max_concurrency           ? "max-concurrency"
         : a.max_streams != b.max_streams                 ? "max-streams"
         : a.requests_per_minute != b.requests_per_minute ? "requests-per-minute"
         : a.tokens_per_minute != b.tokens_per_minute     ? "tokens-per-minute"
                                                          : "";
}

}  // namespace

void KeyRing::Add(std::string_view key, Tenant tenant) {
  entries_.push_back({Sha256::Of(key), std::move(tenant)});
}

Status KeyRing::AddFile(const std::string& path) {
  TRY_ASSIGN(const ConfigTable file, ConfigTable::Load(path));
  return AddKeys(file);
}

Status KeyRing::AddKeys(const ConfigTable& file) {
  TRY(file.RefuseUnknownKeys({"key"}));
  TRY_ASSIGN(const std::vector<ConfigTable> keys, file.Tables("key"));
  if (keys.empty()) {
    return Fail(file.ErrorAt("key", "has no [[key]], so nobody could use the server"));
  }
  const size_t given = entries_.size();
  for (const ConfigTable& key : keys) {
    TRY(key.RefuseUnknownKeys({"name", "hash", "weight", "admin", "max-concurrency", "max-streams",
                               "requests-per-minute", "tokens-per-minute"}));
    TRY_ASSIGN(const auto name, key.String("name"));
    TRY_ASSIGN(const auto hash, key.String("hash"));
    TRY_ASSIGN(const auto weight, key.Float("weight"));
    TRY_ASSIGN(const auto admin, key.Bool("admin"));
    TRY_ASSIGN(const KeyLimits most, ReadLimits(key));
    if (!name || name->empty()) {
      return Fail(key.ErrorAt("name", "a key needs a name"));
    }
    if (name->size() > limits::kTenantNameBytesMax) {
      return Fail(key.ErrorAt(
          "name", "at most " + std::to_string(limits::kTenantNameBytesMax) + " bytes are taken"));
    }
    if (std::any_of(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(given),
                    [&](const Entry& other) { return other.tenant.name == *name; })) {
      return Fail(key.ErrorAt("name", *name + " is the tenant of --api-key: take another name, or "
                                              "leave --api-key out"));
    }
    constexpr std::string_view kPrefix = "sha256:";
    const auto digest = hash && hash->starts_with(kPrefix)
                            ? ParseHex(std::string_view(*hash).substr(kPrefix.size()))
                            : std::nullopt;
    if (!digest || digest->size() != Sha256::Digest{}.size()) {
      return Fail(key.ErrorAt("hash", "must be \"sha256:\" and 64 hex digits"));
    }
    if (weight && !(*weight > 0.0 && std::isfinite(*weight))) {
      return Fail(key.ErrorAt("weight", "must be a number above 0"));
    }
    Entry entry;
    std::copy(digest->begin(), digest->end(), entry.digest.begin());
    if (std::any_of(entries_.begin(), entries_.end(),
                    [&](const Entry& other) { return other.digest == entry.digest; })) {
      return Fail(key.ErrorAt("hash", "is another key's already"));
    }
    entry.tenant = {*name, weight.value_or(1.0), admin.value_or(false), most};
    for (const Entry& other : entries_) {
      const std::string_view different = DifferentLimit(other.tenant.limits, most);
      if (other.tenant.name == *name && !different.empty()) {
        return Fail(key.ErrorAt(different, "must be the same for all keys of " + *name));
      }
    }
    entries_.push_back(std::move(entry));
  }
  return {};
}

std::vector<Tenant> KeyRing::Tenants() const {
  std::vector<Tenant> tenants;
  for (const Entry& entry : entries_) {
    tenants.push_back(entry.tenant);
  }
  return tenants;
}

bool KeyRing::Has(std::string_view tenant) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [tenant](const Entry& entry) { return entry.tenant.name == tenant; });
}

std::optional<Tenant> KeyRing::Find(const wire::HttpHeaders& headers) const {
  const std::string_view key = KeyIn(headers);
  if (key.empty()) {
    return std::nullopt;
  }
  const Sha256::Digest digest = Sha256::Of(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    found = SameDigest(entry.digest, digest) ? &entry : found;
  }
  return found == nullptr ? std::nullopt : std::optional(found->tenant);
}

}  // namespace fak::gateway

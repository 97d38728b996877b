// fuzz: links fak_gateway fak_base
// A keys.toml gives tenants that can be found, each with a share, or an error that says where.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/config.h"
#include "base/limits.h"
#include "base/result.h"
#include "gateway/keys.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = fak::ConfigTable::Parse(text, "keys.toml");
  if (!file) {
    return 0;
  }
  fak::gateway::KeyRing keys;
  const fak::Status added = keys.AddKeys(*file);
  if (!added) {
    CHECK(added.error().detail.starts_with("keys.toml:")) << added.error().detail;
    return 0;
  }
  CHECK(!keys.empty());
  const auto tables = file->Tables("key");
  for (const fak::ConfigTable& table : *tables) {
    CHECK(keys.Has(**table.String("name")));
  }
  // The seeds have the hash of this one.
  if (const auto tenant = keys.Find({{"authorization", "Bearer k"}})) {
    CHECK(keys.Has(tenant->name));
    CHECK(tenant->name.size() <= fak::limits::kTenantNameBytesMax);
    CHECK(tenant->weight > 0);
  }
  return 0;
}

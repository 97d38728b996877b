// fuzz: links fak_fleet fak_ride fak_base
// A fleet file gives replicas with names of their own, each with a share, or an error that says
// where.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/limits.h"
#include "base/result.h"
#include "fleet/fleet_file.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_spec.h"

namespace {

using fak::Status;
using fak::driver::ReplicaSpec;

// As `fak serve` does.
Status Complete(ReplicaSpec& spec) {
  if (spec.engine == fak::driver::kNativeEngine) {
    spec.name = fak::driver::kNativeEngine;
    return {};
  }
  TRY(fak::ride::CompleteSpec(spec, spec.url));
  return fak::ride::UpstreamDriver::Check(spec);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find("api-key-file") != std::string_view::npos || text.find('\\') != text.npos) {
    return 0;  // would read files of this machine
  }
  const auto file = fak::ConfigTable::Parse(text, "fleet.toml");
  if (!file) {
    return 0;
  }
  const auto replicas = fak::fleet::ReadReplicas(*file, Complete);
  if (!replicas) {
    CHECK(replicas.error().detail.starts_with("fleet.toml:")) << replicas.error().detail;
    return 0;
  }
  CHECK(replicas->size() <= fak::limits::kUpstreamsMax);
  std::set<std::string> names;
  for (const ReplicaSpec& replica : *replicas) {
    CHECK(!replica.name.empty() && names.insert(replica.name).second);
    CHECK(std::isfinite(replica.weight) && replica.weight >= 0);
    CHECK(replica.max_concurrency >= 0);
  }
  return 0;
}

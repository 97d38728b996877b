#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "driver/engine_driver.h"
#include "ride/request_edit.h"
#include "ride/upstream_kv_events.h"

namespace fak::ride {

// Of the token that an engine is asked for, where nobody says otherwise, and what may be said.
inline constexpr int kGenerationProbeIntervalS = 60;
inline constexpr int kGenerationProbeIntervalMaxS = 86'400;
inline constexpr int kGenerationProbeTimeoutS = 20;
inline constexpr int kGenerationProbeTimeoutMaxS = 600;

// What ReplicaSpec::options says of an upstream. Plain value.
struct SpecOptions {
  UpstreamPolicy policy;
  std::vector<KvEventEndpoint> kv_events;
  std::optional<int> generation_probe_every_s;  // 0: never
  std::optional<int> generation_probe_timeout_s;
};

// kInvalidArgument names the member as its field. Pure.
[[nodiscard]] Result<SpecOptions> ReadSpecOptions(const driver::ReplicaSpec& spec);

}  // namespace fak::ride

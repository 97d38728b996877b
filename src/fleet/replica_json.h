#pragma once

#include "base/json.h"
#include "base/result.h"
#include "driver/engine_driver.h"

namespace fak::fleet {

// A replica as a JSON object, for programs that add one: the keys of the fleet file (fleet_file.h)
// with underscores, and `api_key` with the key itself instead of a file's name.
//   {"name": "a", "engine": "vllm", "url": "http://10.0.0.5:8000", "weight": 2}
// kInvalidArgument names the key at fault. Whether an engine can be that is left to its factory.
[[nodiscard]] Result<driver::ReplicaSpec> ReadReplicaJson(const Json& document);

}  // namespace fak::fleet

#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "driver/engine_driver.h"

namespace fak::fleet {

// Its tables in the TOML file, beside those of the program's verbs.
inline constexpr std::string_view kReplicaKey = "replica";

// The replicas of a fleet file, in its order; none where it has none.
//   [[replica]]
//   name = "a"                        # default: the URL's host and port
//   engine = "vllm"                   # default: "auto"; "native": a model served here
//   url = "http://10.0.0.5:8000"      # or, native, none
//   model = "smollm2"                 # native: which; else what it is asked for, and of several
//                                     # the only model whose requests it gets
//   weight = 2.0                      # its share where the policy spreads by shares; default 1
//   max-concurrency = 64              # requests open there at once; default: as many as come
//   api-key-file = "/etc/fak/a.key"   # its first line
//   metrics-urls = ["http://10.0.0.5:9000/metrics"]
//   kv-events = ["tcp://10.0.0.5:5557,replay=tcp://10.0.0.5:5558"]
//   data-parallel-rank = 0
//   allow-fields = ["nvext.agent_hints"]
//   allow-headers = ["x-tier"]
//   generation-probe-interval = 60    # seconds without a word from it; 0: never
//   generation-probe-timeout = 20     # seconds
// `complete` says whether a replica can be one, and fills in what was left out; an error's field is
// the key at fault. All errors start with "file:line:column:". kInvalidArgument: two of one name, a
// native one among several, a weight that is no share, more than limits::kUpstreamsMax.
// With KeysIn::kClear a replica's key is there itself, as api-key.
enum class KeysIn : uint8_t { kFiles, kClear };
[[nodiscard]] Result<std::vector<driver::ReplicaSpec>> ReadReplicas(
    const ConfigTable& file, FunctionRef<Status(driver::ReplicaSpec&)> complete,
    KeysIn keys = KeysIn::kFiles);

// The keys that are lists, and what they are in ReplicaSpec::options.
inline constexpr std::pair<std::string_view, std::string_view> kReplicaLists[] = {
    {"kv-events", "kv_events"},
    {"allow-fields", "allow_fields"},
    {"allow-headers", "allow_headers"},
};
// The same of those that are whole numbers.
inline constexpr std::pair<std::string_view, std::string_view> kReplicaNumbers[] = {
    {"data-parallel-rank", "data_parallel_rank"},
    {"generation-probe-interval", "generation_probe_interval"},
    {"generation-probe-timeout", "generation_probe_timeout"},
};

// What replicas that are found elsewhere have in common: of the keys above engine, model, weight,
// max-concurrency, api-key-file, allow-fields, allow-headers and generation-probe-... Others are
// the caller's.
[[nodiscard]] Result<driver::ReplicaSpec> ReadReplicaLike(const ConfigTable& table);
// An error of a replica, whose field is a member of its spec, at the place of that key.
Error AtReplicaKey(const ConfigTable& table, Error error);

}  // namespace fak::fleet

#include "ride/spec_options.h"

#include <algorithm>
#include <utility>

#include "ride/json_reads.h"

namespace fak::ride {
namespace {

Status ReadNames(const std::string& key, const Json& list, std::vector<std::string>& names) {
  const bool all =
      list.is_array() && std::all_of(list.array().begin(), list.array().end(),
                                     [](const Json& each) { return each.is_string(); });
  if (!all) {
    return Fail(Code::kInvalidArgument, key + ": must be a list of names", key);
  }
  for (const Json& each : list.array()) {
    names.push_back(each.string());
  }
  return {};
}

Result<int> ReadSeconds(const Json& options, const std::string& key, int least, int most) {
  const Json* value = options.Find(key);
  const auto given = value->is_number() ? value->AsInt() : std::nullopt;
  if (!given || *given < least || *given > most) {
    return Fail(Code::kInvalidArgument,
                key + ": must be a whole number of seconds from " + std::to_string(least) + " to " +
                    std::to_string(most),
                key);
  }
  return static_cast<int>(*given);
}

}  // namespace

Result<SpecOptions> ReadSpecOptions(const driver::ReplicaSpec& spec) {
  SpecOptions options;
  UpstreamPolicy& policy = options.policy;
  policy.model = spec.model;
  if (!spec.options.is_object()) {
    return options;
  }
  for (const auto& [key, value] : spec.options.object()) {
    if (key == "allow_fields") {
      TRY(ReadNames(key, value, policy.allowed_fields));
    } else if (key == "allow_headers") {
      TRY(ReadNames(key, value, policy.allowed_headers));
    } else if (key == "data_parallel_rank") {
      policy.rank = IntAt(spec.options, key, -1);
      if (*policy.rank < 0) {
        return Fail(Code::kInvalidArgument, key + ": must be a rank, from 0", key);
      }
    } else if (key == "kv_events") {
      std::vector<std::string> texts;
      TRY(ReadNames(key, value, texts));
      for (const std::string& text : texts) {
        auto endpoint = ParseKvEventEndpoint(text);
        if (!endpoint) {
          endpoint.error().field = key;
          return Fail(std::move(endpoint).error());
        }
        options.kv_events.push_back(*std::move(endpoint));
      }
    } else if (key == "generation_probe_interval") {
      TRY_ASSIGN(options.generation_probe_every_s,
                 ReadSeconds(spec.options, key, 0, kGenerationProbeIntervalMaxS));
    } else if (key == "generation_probe_timeout") {
      TRY_ASSIGN(options.generation_probe_timeout_s,
                 ReadSeconds(spec.options, key, 1, kGenerationProbeTimeoutMaxS));
    } else {
      return Fail(Code::kInvalidArgument, "an upstream has no option " + key, key);
    }
  }
  return options;
}

}  // namespace fak::ride

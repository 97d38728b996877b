#include "fleet/fleet_file.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/key_file.h"
#include "base/limits.h"
#include "fleet/router.h"

namespace fak::fleet {
namespace {

Status ReadOptions(const ConfigTable& table, driver::ReplicaSpec& spec) {
  for (const auto& [key, option] : kReplicaLists) {
    TRY_ASSIGN(const auto texts, table.Strings(key));
    if (texts) {
      spec.options.Set(std::string(option), Json::Array(texts->begin(), texts->end()));
    }
  }
  for (const auto& [key, option] : kReplicaNumbers) {
    TRY_ASSIGN(const std::optional<int64_t> number, table.Int(key));
    if (number) {
      spec.options.Set(std::string(option), *number);
    }
  }
  return {};
}

Status ReadShare(const ConfigTable& table, driver::ReplicaSpec& spec) {
  TRY_ASSIGN(const std::optional<double> weight, table.Float("weight"));
  if (weight && !(*weight >= 0 && *weight <= kReplicaWeightMax)) {
    return Fail(table.ErrorAt("weight", "must be from 0 to 1000000"));
  }
  spec.weight = weight.value_or(spec.weight);
  TRY_ASSIGN(const std::optional<int64_t> most, table.Int("max-concurrency"));
  if (most && (*most < 1 || *most > std::numeric_limits<int32_t>::max())) {
    return Fail(table.ErrorAt("max-concurrency", "must be a number of requests, from 1"));
  }
  spec.max_concurrency = static_cast<int32_t>(most.value_or(spec.max_concurrency));
  return {};
}

// Nothing where the key is left out.
Status ReadText(const ConfigTable& table, std::string_view key, std::string& text) {
  TRY_ASSIGN(std::optional<std::string> given, table.String(key));
  if (given && given->empty()) {
    return Fail(table.ErrorAt(key, "is empty"));
  }
  text = std::move(given).value_or(std::move(text));
  return {};
}

Result<driver::ReplicaSpec> ReadReplica(const ConfigTable& table, KeysIn keys) {
  TRY(table.RefuseUnknownKeys({"name", "engine", "url", "model", "weight", "max-concurrency",
                               keys == KeysIn::kClear ? "api-key" : "api-key-file", "metrics-urls",
                               "kv-events", "data-parallel-rank", "allow-fields", "allow-headers",
                               "generation-probe-interval", "generation-probe-timeout"}));
  TRY_ASSIGN(driver::ReplicaSpec spec, ReadReplicaLike(table));
  TRY(ReadText(table, "name", spec.name));
  TRY(ReadText(table, "url", spec.url));
  if (keys == KeysIn::kClear) {
    TRY(ReadText(table, "api-key", spec.api_key));
  }
  TRY_ASSIGN(auto metrics_urls, table.Strings("metrics-urls"));
  spec.metrics_urls = std::move(metrics_urls).value_or(std::vector<std::string>());
  return spec;
}

}  // namespace

Result<driver::ReplicaSpec> ReadReplicaLike(const ConfigTable& table) {
  driver::ReplicaSpec spec;
  spec.engine = "auto";
  spec.options = Json::Object{};
  TRY(ReadText(table, "engine", spec.engine));
  TRY(ReadText(table, "model", spec.model));
  std::string key_file;
  TRY(ReadText(table, "api-key-file", key_file));
  if (!key_file.empty()) {
    auto key = ReadKeyFile(key_file);
    if (!key) {
      return Fail(table.ErrorAt("api-key-file", key.error().detail));
    }
    spec.api_key = *std::move(key);
  }
  TRY(ReadShare(table, spec));
  TRY(ReadOptions(table, spec));
  return spec;
}

Error AtReplicaKey(const ConfigTable& table, Error error) {
  if (error.detail.starts_with(error.field + ": ")) {
    error.detail.erase(0, error.field.size() + 2);
  }
  std::string key = error.field;
  std::replace(key.begin(), key.end(), '_', '-');
  return table.ErrorAt(key, error.detail);
}

Result<std::vector<driver::ReplicaSpec>> ReadReplicas(
    const ConfigTable& file, FunctionRef<Status(driver::ReplicaSpec&)> complete, KeysIn keys) {
  TRY_ASSIGN(const std::vector<ConfigTable> tables, file.Tables(kReplicaKey));
  if (tables.size() > limits::kUpstreamsMax) {
    return Fail(tables[limits::kUpstreamsMax].ErrorAt(
        "", "at most " + std::to_string(limits::kUpstreamsMax) + " replicas"));
  }
  std::vector<driver::ReplicaSpec> specs;
  for (const ConfigTable& table : tables) {
    TRY_ASSIGN(driver::ReplicaSpec spec, ReadReplica(table, keys));
    if (Status completed = complete(spec); !completed) {
      return Fail(AtReplicaKey(table, std::move(completed).error()));
    }
    if (tables.size() > 1 && spec.engine == driver::kNativeEngine) {
      return Fail(table.ErrorAt("engine", "a native replica has to be the only one"));
    }
    const bool taken = std::any_of(specs.begin(), specs.end(),
                                   [&spec](const auto& other) { return other.name == spec.name; });
    if (taken) {
      return Fail(table.ErrorAt("name", "another replica is called " + spec.name + " already"));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace fak::fleet

#include "fleet/replica_json.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/key_file.h"
#include "fleet/router.h"
#include "wire/fields.h"

namespace fak::fleet {
namespace {

// Empty where there is none.
std::vector<std::string> Texts(wire::Fields& fields, const std::string& name) {
  const Json* value = fields.Take(name);
  std::vector<std::string> texts;
  if (value == nullptr) {
    return texts;
  }
  if (!value->is_array() || !std::all_of(value->array().begin(), value->array().end(),
                                         [](const Json& each) { return each.is_string(); })) {
    fields.Fail(name, "must be an array of strings");
    return texts;
  }
  for (const Json& each : value->array()) {
    texts.push_back(each.string());
  }
  return texts;
}

double Weight(wire::Fields& fields) {
  const Json* value = fields.Take("weight");
  if (value == nullptr) {
    return 1;
  }
  const double weight = value->is_number() ? value->number() : -1;
  if (!(weight >= 0 && weight <= kReplicaWeightMax)) {
    fields.Fail("weight", "must be a number from 0 to 1000000");
  }
  return weight;
}

Json Options(wire::Fields& fields) {
  Json options = Json::Object{};
  for (const char* key : {"kv_events", "allow_fields", "allow_headers"}) {
    if (const auto texts = Texts(fields, key); !texts.empty()) {
      options.Set(key, Json::Array(texts.begin(), texts.end()));
    }
  }
  if (const auto rank = fields.Int("data_parallel_rank", 0, std::numeric_limits<int32_t>::max())) {
    options.Set("data_parallel_rank", *rank);
  }
  for (const char* key : {"generation_probe_interval", "generation_probe_timeout"}) {
    if (const auto seconds = fields.Int(key, 0, std::numeric_limits<int32_t>::max())) {
      options.Set(key, *seconds);
    }
  }
  return options;
}

}  // namespace

Result<driver::ReplicaSpec> ReadReplicaJson(const Json& document) {
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "a replica must be a JSON object");
  }
  wire::Fields fields(document);
  driver::ReplicaSpec spec;
  const auto text = [&fields](const char* name, std::string otherwise) {
    auto given = fields.String(name);
    if (given && given->empty()) {
      fields.Fail(name, "is empty");
    }
    return std::move(given).value_or(std::move(otherwise));
  };
  spec.name = text("name", "");
  spec.engine = text("engine", "auto");
  spec.url = text("url", "");
  spec.model = text("model", "");
  const std::string key = text("api_key", "");
  spec.metrics_urls = Texts(fields, "metrics_urls");
  spec.weight = Weight(fields);
  spec.max_concurrency = static_cast<int32_t>(
      fields.Int("max_concurrency", 1, std::numeric_limits<int32_t>::max()).value_or(0));
  spec.options = Options(fields);
  TRY(fields.status());
  TRY(fields.RefuseUnknown());
  if (spec.url.empty()) {
    return Fail(Code::kInvalidArgument, "url: is missing", "url");
  }
  if (spec.engine == driver::kNativeEngine) {
    return Fail(Code::kInvalidArgument,
                "engine: a model that is served here can't join others while they serve", "engine");
  }
  if (!key.empty()) {
    TRY_ASSIGN(spec.api_key, CleanKey(key, "api_key"));
  }
  return spec;
}

}  // namespace fak::fleet

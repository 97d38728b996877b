#include <utility>

#include "fleet/replica_json.h"
#include "gateway/gateway.h"
#include "wire/fields.h"
#include "wire/openai_decode.h"

// GET /v1/fak/fleet, POST /v1/fak/fleet/drain, /undrain, /add, /remove and /explain.
namespace fak::gateway {
namespace {

template <class Number>
void WriteNumber(JsonWriter& json, const char* key, const std::optional<Number>& value) {
  if (value) {
    json.Key(key).Double(static_cast<double>(*value));
  }
}

void WriteReplica(JsonWriter& json, const fleet::ReplicaStatus& replica) {
  json.BeginObject().Key("name").String(replica.name);
  json.Key("state").String(fleet::ReplicaStateName(replica.state));
  if (!replica.why.empty()) {
    json.Key("why").String(replica.why);
  }
  if (replica.leaving) {
    json.Key("leaving").Bool(true);
  }
  json.Key("breaker").String(fleet::BreakerStateName(replica.breaker));
  json.Key("engine").String(replica.engine);
  if (!replica.version.empty()) {
    json.Key("version").String(replica.version);
  }
  json.Key("models").BeginArray();
  for (const std::string& model : replica.models) {
    json.String(model);
  }
  json.EndArray();
  json.Key("in_flight").Int(replica.in_flight).Key("backlog_tokens").Int(replica.backlog_tokens);
  WriteNumber(json, "running", replica.load.running);
  WriteNumber(json, "waiting", replica.load.waiting);
  WriteNumber(json, "kv_usage", replica.load.kv_usage);
  WriteNumber(json, "hit_rate", replica.hit_rate);
  WriteNumber(json, "ttft_p50_s", replica.ttft_p50_s);
  WriteNumber(json, "ttft_p99_s", replica.ttft_p99_s);
  json.Key("attempts").Uint(replica.attempts).Key("failures").Uint(replica.failures);
  json.Key("weight").Double(replica.weight);
  if (replica.max_concurrency > 0) {
    json.Key("max_concurrency").Int(replica.max_concurrency);
  }
  json.EndObject();
}

void WriteSources(JsonWriter& json, fleet::Membership& membership) {
  json.Key("sources").BeginArray();
  for (const fleet::Membership::SourceStatus& source : membership.Sources()) {
    json.BeginObject().Key("name").String(source.name).Key("replicas").Uint(source.replicas);
    json.Key("updates").Uint(source.updates);
    if (!source.error.empty()) {
      json.Key("error").String(source.error);
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteModels(JsonWriter& json, const fleet::FleetDriver& fleet) {
  json.Key("models").BeginArray();
  for (const fleet::ModelStatus& model : fleet.DescribeModels()) {
    json.BeginObject().Key("name").String(model.entry.name).Key("to").BeginArray();
    for (const fleet::ModelTable::Target& target : model.entry.to) {
      json.BeginObject().Key("model").String(target.model);
      json.Key("weight").Double(target.weight).EndObject();
    }
    json.EndArray().Key("fallback").BeginArray();
    for (const std::string& fallback : model.entry.fallback) {
      json.String(fallback);
    }
    json.EndArray().Key("requests").BeginObject();
    for (const auto& [name, requests] : model.requests) {
      json.Key(name).Uint(requests);
    }
    json.EndObject().Key("fallbacks").Uint(model.fallbacks).EndObject();
  }
  json.EndArray();
}

std::string FleetBody(const GatewayOptions& options) {
  const fleet::FleetStatus status = options.maybe_fleet->Describe();
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("policy").String(status.policy).Key("panic").Bool(status.panic);
  json.Key("open_requests").Int(status.open_requests);
  json.Key("queued_requests").Int(status.queued_requests);
  json.Key("retries").BeginObject().Key("made").Uint(status.retries);
  json.Key("denied").Uint(status.retries_denied).Key("left").Double(status.retries_left);
  json.Key("resumed").Uint(status.resumed);
  json.EndObject().Key("residency").BeginObject();
  json.Key("pairs").Uint(status.index_pairs).Key("bytes").Uint(status.index_bytes);
  if (status.index_tally.requests > 0) {
    json.Key("error").Double(status.index_tally.error());
  }
  json.EndObject().Key("replicas").BeginArray();
  for (const fleet::ReplicaStatus& replica : status.replicas) {
    WriteReplica(json, replica);
  }
  json.EndArray();
  WriteModels(json, *options.maybe_fleet);
  if (options.maybe_membership != nullptr) {
    WriteSources(json, *options.maybe_membership);
  }
  json.EndObject();
  return body;
}

Error NoFleet() {
  return {Code::kNotFound, "there is no fleet here: a model is served, and no upstream"};
}

Error Fixed() {
  return {Code::kUnsupported, "who is in this fleet can't be changed while it serves"};
}

using Lasting = fleet::Membership::Lasting;

// Whose name, and whether what is done to it shall last.
struct NamedChange {
  std::string name;
  Lasting lasting;
};

Result<NamedChange> NameIn(std::string_view body) {
  TRY_ASSIGN(const Json document, ParseJson(body));
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  wire::Fields fields(document);
  std::string name = fields.String("name").value_or("");
  const bool persist = fields.Bool("persist").value_or(false);
  TRY(fields.status());
  TRY(fields.RefuseUnknown());
  if (name.empty()) {
    return Fail(Code::kInvalidArgument, "name: is missing", "name");
  }
  return NamedChange{std::move(name), persist ? Lasting::kPersist : Lasting::kProcess};
}

// A replica, with that word among its members.
Result<std::pair<driver::ReplicaSpec, Lasting>> NewReplicaIn(std::string_view body) {
  TRY_ASSIGN(const Json document, ParseJson(body));
  Json replica = document;
  bool persist = false;
  if (document.is_object() && document.Find("persist") != nullptr) {
    wire::Fields fields(document);
    persist = fields.Bool("persist").value_or(false);
    TRY(fields.status());
    Json::Object members = document.object();
    std::erase_if(members, [](const Json::Member& member) { return member.first == "persist"; });
    replica = Json(std::move(members));
  }
  TRY_ASSIGN(driver::ReplicaSpec spec, fleet::ReadReplicaJson(replica));
  return std::pair(std::move(spec), persist ? Lasting::kPersist : Lasting::kProcess);
}

}  // namespace

namespace {

std::string ExplanationBody(const fleet::Explanation& said) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("policy").String(said.policy);
  json.Key("model").String(said.model).Key("prompt_tokens").Int(said.prompt_tokens);
  if (!said.chosen.empty()) {
    json.Key("chosen").String(said.chosen);
  }
  json.Key("why").String(said.why).Key("replicas").BeginArray();
  for (const fleet::Explanation::Row& row : said.replicas) {
    json.BeginObject().Key("name").String(row.name);
    json.Key("state").String(fleet::ReplicaStateName(row.state));
    if (row.cost) {
      json.Key("cost").Double(*row.cost);
    } else {
      json.Key("why_not").String(row.why_not);
    }
    json.Key("cached_tokens").Int(row.cached_tokens);
    json.Key("backlog_tokens").Int(row.backlog_tokens).Key("in_flight").Int(row.in_flight);
    json.Key("weight").Double(row.weight).EndObject();
  }
  json.EndArray().EndObject();
  return body;
}

}  // namespace

void Gateway::ExplainRouteNow(std::shared_ptr<Call> call) {
  if (options_.maybe_fleet == nullptr) {
    Refuse(*call, NoFleet());
    return;
  }
  const auto prepare = [this, &call]() -> Result<std::shared_ptr<const driver::Prepared>> {
    TRY_ASSIGN(Json parsed, ParseJson(call->request.body));
    const auto document = std::make_shared<const Json>(std::move(parsed));
    TRY_ASSIGN(wire::Turn turn, document->Find("messages") != nullptr
                                    ? wire::DecodeChatRequest(*document)
                                    : wire::DecodeCompletionRequest(*document));
    turn.model = ShownModel(turn.model);
    return MakeReady(*call, std::make_shared<const wire::Turn>(std::move(turn)), document);
  };
  const auto prepared = prepare();
  if (!prepared) {
    Refuse(*call, prepared.error());
    return;
  }
  Answer(*call, 200, ExplanationBody(options_.maybe_fleet->Explain(*prepared)));
}

void Gateway::Fleet(std::shared_ptr<Call> call) {
  if (options_.maybe_fleet == nullptr) {
    Refuse(*call, NoFleet());
    return;
  }
  Answer(*call, 200, FleetBody(options_));
}

void Gateway::SetDraining(Call& call, bool draining) {
  if (options_.maybe_fleet == nullptr || options_.maybe_membership == nullptr) {
    Refuse(call, options_.maybe_fleet == nullptr ? NoFleet() : Fixed());
    return;
  }
  const auto drain = [this, &call, draining]() -> Status {
    TRY_ASSIGN(const NamedChange change, NameIn(call.request.body));
    return options_.maybe_membership->SetDraining(change.name, draining, change.lasting);
  };
  if (const Status done = drain(); !done) {
    Refuse(call, done.error());
    return;
  }
  Answer(call, 200, FleetBody(options_));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a Handler
void Gateway::DrainReplicaNow(std::shared_ptr<Call> call) {
  SetDraining(*call, /*draining=*/true);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a Handler
void Gateway::UndrainReplicaNow(std::shared_ptr<Call> call) {
  SetDraining(*call, /*draining=*/false);
}

void Gateway::AddReplicaNow(std::shared_ptr<Call> call) {
  if (options_.maybe_fleet == nullptr || options_.maybe_membership == nullptr) {
    Refuse(*call, options_.maybe_fleet == nullptr ? NoFleet() : Fixed());
    return;
  }
  const auto add = [this, &call]() -> Status {
    TRY_ASSIGN(auto replica, NewReplicaIn(call->request.body));
    TRY(options_.maybe_membership->Add(std::move(replica.first), replica.second));
    return {};
  };
  if (const Status added = add(); !added) {
    Refuse(*call, added.error());
    return;
  }
  Answer(*call, 200, FleetBody(options_));
}

void Gateway::RemoveReplicaNow(std::shared_ptr<Call> call) {
  if (options_.maybe_fleet == nullptr || options_.maybe_membership == nullptr) {
    Refuse(*call, options_.maybe_fleet == nullptr ? NoFleet() : Fixed());
    return;
  }
  const auto remove = [this, &call]() -> Status {
    TRY_ASSIGN(const NamedChange change, NameIn(call->request.body));
    return options_.maybe_membership->Remove(change.name, change.lasting);
  };
  if (const Status removed = remove(); !removed) {
    Refuse(*call, removed.error());
    return;
  }
  Answer(*call, 200, FleetBody(options_));
}

}  // namespace fak::gateway

#include "cli/upstreams.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/key_file.h"
#include "base/limits.h"
#include "base/printable.h"
#include "base/strings.h"
#include "cli/number_flag.h"
#include "fleet/router.h"
#include "net/url.h"
#include "ride/adapter.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_kv_events.h"
#include "ride/upstream_spec.h"

namespace fak::cli {
namespace {

void AddToList(Json& options, const std::string& key, const std::vector<std::string>& texts) {
  const Json* before = options.Find(key);
  Json::Array list = before == nullptr ? Json::Array() : before->array();
  list.insert(list.end(), texts.begin(), texts.end());
  options.Set(key, std::move(list));
}

Status GiveKeys(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  if (!flags.api_key.empty()) {
    if (specs.size() > 1) {
      return Fail(Code::kInvalidArgument,
                  "--upstream-api-key would go to every upstream: give --upstream-api-key-file "
                  "NAME=FILE for the one that it belongs to");
    }
    TRY_ASSIGN(specs.front().api_key, CleanKey(flags.api_key, "--upstream-api-key"));
  }
  for (const std::string& text : flags.api_key_files) {
    const auto named = Cut(text, "=");
    if (!named && specs.size() > 1) {
      return Fail(Code::kInvalidArgument, "--upstream-api-key-file " + text +
                                              ": with several upstreams it must be NAME=FILE");
    }
    const auto owner = std::find_if(specs.begin(), specs.end(), [&named](const auto& spec) {
      return !named || spec.name == named->first;
    });
    if (owner == specs.end()) {
      return Fail(Code::kInvalidArgument, "--upstream-api-key-file " + text +
                                              ": no upstream has the name " +
                                              std::string(named->first));
    }
    TRY_ASSIGN(owner->api_key, ReadKeyFile(named ? std::string(named->second) : text));
  }
  return {};
}

// Whose "[NAME=]ADDRESS" it is, and the address. kInvalidArgument: nobody's.
Result<std::pair<driver::ReplicaSpec*, std::string>> OwnerOf(
    const std::string& flag, const std::string& text, std::vector<driver::ReplicaSpec>& specs) {
  const auto cut = Cut(text, "=");
  const bool named = cut && cut->first.find("://") == std::string_view::npos;
  if (!named && specs.size() > 1) {
    return Fail(Code::kInvalidArgument,
                flag + " " + text + ": with several upstreams NAME= must stand before it");
  }
  const auto owner = std::find_if(specs.begin(), specs.end(), [&](const auto& spec) {
    return !named || spec.name == cut->first;
  });
  if (owner == specs.end()) {
    return Fail(Code::kInvalidArgument,
                flag + " " + text + ": no upstream has the name " + std::string(cut->first));
  }
  return std::pair(&*owner, named ? std::string(cut->second) : text);
}

Status GiveMetricsUrls(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  for (const std::string& text : flags.metrics_urls) {
    TRY_ASSIGN(const auto owned, OwnerOf("--upstream-metrics-url", text, specs));
    owned.first->metrics_urls.push_back(owned.second);
  }
  return {};
}

Status GiveRanks(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  const std::string flag = "--upstream-data-parallel-rank";
  for (const std::string& text : flags.data_parallel_ranks) {
    TRY_ASSIGN(const auto owned, OwnerOf(flag, text, specs));
    Json& options = owned.first->options;
    if (const Json* before = options.Find("data_parallel_rank")) {
      return Fail(Code::kInvalidArgument, flag + " " + text + ": upstream " + owned.first->name +
                                              " has one already: " + before->Dump());
    }
    const auto rank = ParseUint(owned.second);
    if (!rank || *rank > std::numeric_limits<int32_t>::max()) {
      return Fail(Code::kInvalidArgument, flag + " " + text + ": must be a rank, from 0");
    }
    options.Set("data_parallel_rank", static_cast<int64_t>(*rank));
  }
  return {};
}

Status GiveKvEvents(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  for (const std::string& text : flags.kv_events) {
    TRY_ASSIGN(const auto owned, OwnerOf("--upstream-kv-events", text, specs));
    if (auto endpoint = ride::ParseKvEventEndpoint(owned.second); !endpoint) {
      return Fail(Within("--upstream-kv-events", std::move(endpoint).error()));
    }
    AddToList(owned.first->options, "kv_events", {owned.second});
  }
  return {};
}

bool Contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

// One as it was found at the start.
struct Found {
  ride::UpstreamDriver* driver;
  std::shared_ptr<const ride::Endpoint> maybe_endpoint;  // null: it doesn't answer
  std::vector<std::string> models;                       // that it lists
  std::string model;  // that it is asked for whatever clients say; empty: none

  // An engine that names none may have any.
  bool MayTakeAny() const { return models.empty(); }
  bool TakesAnyOf(const std::vector<std::string>& names) const {
    const auto capabilities = driver->capabilities();
    return std::any_of(names.begin(), names.end(), [&capabilities](const std::string& name) {
      return Contains(capabilities->models, name);
    });
  }
  std::string ListInWords() const { return driver->name() + " lists " + Join(models, ", "); }
};

Found Find(ride::UpstreamDriver& driver, const driver::ReplicaSpec& spec,
           std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - std::chrono::steady_clock::now());
  const auto probed = driver.WaitForProbe(std::max(0, static_cast<int>(left.count())));
  if (!probed || !driver.Load().ready) {
    if (!probed && probed.error().code == Code::kDeadlineExceeded) {  // else the log has it
      std::fprintf(stderr, "%s (%s)\n", Printable(probed.error().detail).c_str(), spec.url.c_str());
    }
    return {&driver, nullptr, {}, spec.model};
  }
  const ride::Endpoint& endpoint = **probed;
  std::fprintf(
      stderr, "upstream %s: %s%s%s at %s (%s); models: %s\n", driver.name().c_str(),
      std::string(endpoint.adapter->engine).c_str(), endpoint.version.empty() ? "" : " ",
      Printable(endpoint.version).c_str(), spec.url.c_str(), Printable(endpoint.why).c_str(),
      endpoint.models.empty() ? "it names none" : Printable(Join(endpoint.models, ", ")).c_str());
  // One that is always asked for the same takes any name.
  const bool any = !endpoint.adapter->default_model.empty();
  return {&driver, *probed, any ? std::vector<std::string>() : endpoint.models, spec.model};
}

std::string ListsInWords(const std::vector<Found>& found) {
  std::vector<std::string> lists;
  for (const Found& each : found) {
    lists.push_back(each.ListInWords());
  }
  return Join(lists, "; ");
}

// Served names that no upstream lists, and the model that they stand for; empty: the only one that
// an upstream lists.
struct OwnNames {
  std::vector<std::string> names;
  std::string model;
};

// kInvalidArgument where a name could mean several models.
Result<OwnNames> FindOwnNames(const std::vector<std::string>& served_names,
                              const std::vector<Found>& found) {
  std::vector<std::string> models;
  bool all_known = true;
  for (const Found& each : found) {
    all_known = all_known && !each.MayTakeAny();
    for (const std::string& model : each.models) {
      if (!Contains(models, model)) {
        models.push_back(model);
      }
    }
  }
  OwnNames own;
  for (const std::string& name : served_names) {
    if (!Contains(models, name)) {
      own.names.push_back(name);
    }
  }
  if (!own.names.empty() && all_known && models.size() > 1) {
    const std::string& name = own.names.front();
    const std::string beside =
        found.size() == 1 ? "--upstream-model " + models.front() + " beside it, or " : "";
    return Fail(Code::kInvalidArgument,
                "--served-model-name " + name + ": " + ListsInWords(found) +
                    ": which of them is \"" + name + "\"? Say " + beside + "--served-model-name " +
                    models.front() + ", by its own name",
                "--served-model-name");
  }
  if (found.size() > 1) {
    // Whoever doesn't answer yet may list one of several names, or what the others don't.
    if (!all_known && (served_names.size() > 1 || models.size() > 1)) {
      own.names.clear();
    }
    own.model = models.empty() ? "" : models.front();
  }
  return own;
}

// Of several, one that is to be asked for a model gets the requests for that one alone.
std::vector<Found> WithTheirModelsOnly(std::vector<Found> found) {
  for (Found& each : found) {
    if (!each.model.empty()) {
      each.models = {each.model};
    }
  }
  return found;
}

// What clients call a model.
std::vector<std::string> NamesOf(const std::string& model, const OwnNames& own) {
  std::vector<std::string> names = {model};
  if (own.model.empty() || own.model == model) {
    names.insert(names.end(), own.names.begin(), own.names.end());
  }
  return names;
}

void WarnOfModels(const std::vector<std::string>& served_names, const std::vector<Found>& found) {
  for (const Found& each : found) {
    if (each.MayTakeAny()) {
      continue;
    }
    if (!each.model.empty()) {
      if (!Contains(each.models, each.model)) {
        std::fprintf(stderr,
                     "fak: %s is to be asked for %s: %s, and not that one; unless it takes others "
                     "too, requests fail until it does\n",
                     each.driver->name().c_str(), each.model.c_str(),
                     Printable(each.ListInWords()).c_str());
      }
    } else if (!served_names.empty() && !each.TakesAnyOf(served_names)) {
      std::fprintf(stderr, "fak: no request will go to %s: it takes none of the names %s\n",
                   each.driver->name().c_str(), Printable(Join(served_names, ", ")).c_str());
    }
  }
}

// What a client asks this one for; nullopt: nothing is sure to be answered.
std::optional<std::string> ChatModelOf(const Found& each,
                                       const std::vector<std::string>& served_names) {
  if (each.maybe_endpoint == nullptr ||
      ride::FindRoute(*each.maybe_endpoint->adapter, wire::Surface::kChat) == nullptr) {
    return std::nullopt;
  }
  const std::string first = served_names.empty() ? "" : served_names.front();
  if (!each.model.empty()) {
    return each.MayTakeAny() || Contains(each.models, each.model)
               ? std::optional(first.empty() ? each.model : first)
               : std::nullopt;
  }
  if (!first.empty()) {
    return each.MayTakeAny() || each.TakesAnyOf({first}) ? std::optional(first) : std::nullopt;
  }
  return each.models.empty() ? "" : each.models.front();
}

std::optional<std::string> ChatModel(const std::vector<Found>& found,
                                     const std::vector<std::string>& served_names) {
  for (const Found& each : found) {
    if (auto model = ChatModelOf(each, served_names)) {
      return model;
    }
  }
  return std::nullopt;
}

// Commas between URLs; one inside a URL stays.
std::vector<std::string> SplitUpstreams(const std::vector<std::string>& values) {
  std::vector<std::string> all;
  for (const std::string& value : values) {
    const size_t first = all.size();
    for (const std::string_view part : Split(value, ',')) {
      const std::string_view text = Trim(part);
      if (all.size() == first || text.find("://") != std::string_view::npos) {
        all.emplace_back(text);
      } else {
        all.back() += "," + std::string(text);
      }
    }
  }
  return all;
}

}  // namespace

void AddUpstreamFlags(CLI::App& verb, UpstreamFlags& flags) {
  verb.add_option(
          "--upstream", flags.upstreams,
          "Serve in front of [NAME=][ENGINE+]URL instead of a model; repeatable. ENGINE: auto, " +
              ride::AdapterNames())
      ->allow_extra_args(false);
  verb.add_option(
      "--upstream-model", flags.model,
      "Model to ask the upstream for, whatever clients call it; with one upstream only");
  verb.add_option("--upstream-api-key", flags.api_key,
                  "Key for the upstream (better: FAK_UPSTREAM_API_KEY)");
  verb.add_option("--upstream-api-key-file", flags.api_key_files,
                  "[NAME=]FILE with the key of an upstream; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--upstream-ca-file", flags.ca_file,
                  "PEM certificates to trust in upstreams instead of the system's");
  verb.add_option("--allow-upstream-field", flags.allowed_fields,
                  "Let clients set this field that steers an upstream; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--upstream-metrics-url", flags.metrics_urls,
                  "[NAME=]URL of an upstream's metrics, where it isn't its /metrics; repeatable, "
                  "also for the workers behind it")
      ->allow_extra_args(false);
  verb.add_option("--upstream-kv-events", flags.kv_events,
                  "[NAME=]ENDPOINT[,replay=ENDPOINT][,topic=PREFIX][,rank=N]: where an upstream "
                  "publishes its KV events over ZeroMQ; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--upstream-data-parallel-rank", flags.data_parallel_ranks,
                  "[NAME=]N: the rank of a vLLM that an upstream's requests are for; repeatable")
      ->allow_extra_args(false);
  verb.add_option(
          "--routing-policy", flags.routing_policy,
          "Which of several upstreams gets a request: " + Join(fleet::RoutingPolicyNames(), ", "))
      ->check(CLI::IsMember(fleet::RoutingPolicyNames()))
      ->capture_default_str();
  verb.add_flag("--resume-streams", flags.resume_streams,
                "When an upstream dies in the middle of a stream, go on with it at another one of "
                "the same engine and model: fak's own, and completions of vLLM");
  verb.add_option("--fleet-state-file", flags.state_file,
                  "File to keep what fak fleet --persist changes, and to find it at the start");
  verb.add_option("--metrics-scrape-interval", flags.metrics_scrape_interval_s,
                  "Seconds between two looks at an upstream's own metrics; 0: none")
      ->check(WholeWithin({.least = 0, .most = 86'400}))
      ->capture_default_str();
  verb.add_option("--generation-probe-interval", flags.generation_probe_interval_s,
                  "Seconds without a word from an upstream after which it is asked for one token, "
                  "to see whether it answers; 0: never. fak and hosted APIs only where their own "
                  "[[replica]] table says so")
      ->check(WholeWithin({.least = 0, .most = ride::kGenerationProbeIntervalMaxS}))
      ->capture_default_str();
  verb.add_option("--generation-probe-timeout", flags.generation_probe_timeout_s,
                  "Seconds that it has for that token")
      ->check(WholeWithin({.least = 1, .most = ride::kGenerationProbeTimeoutMaxS}))
      ->capture_default_str();
  verb.add_option("--allow-upstream-header", flags.allowed_headers,
                  "Pass this header of clients on to upstreams; repeatable")
      ->allow_extra_args(false);
}

Status CheckUpstreams(const UpstreamFlags& flags) {
  for (const std::string& text : SplitUpstreams(flags.upstreams)) {
    TRY(ride::ParseUpstream(text));
  }
  return {};
}

Status RefuseOwnAddress(const std::vector<driver::ReplicaSpec>& specs, const net::OwnAddress& own,
                        const std::string& field) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (const driver::ReplicaSpec& spec : specs) {
    if (const auto url = net::ParseUrl(spec.url); url && own.IsAt(url->origin, until)) {
      return Fail(field == "--upstream" ? Code::kInvalidArgument : Code::kAlreadyExists,
                  "upstream " + spec.url +
                      ": that is where this server itself listens; give one of them another port",
                  field);
    }
  }
  return {};
}

Result<std::vector<driver::ReplicaSpec>> UpstreamSpecs(const UpstreamFlags& flags) {
  const std::vector<std::string> upstreams = SplitUpstreams(flags.upstreams);
  if (upstreams.size() > limits::kUpstreamsMax) {
    return Fail(Code::kInvalidArgument, "--upstream: at most " +
                                            std::to_string(limits::kUpstreamsMax) + ", not " +
                                            std::to_string(upstreams.size()));
  }
  std::vector<driver::ReplicaSpec> specs;
  for (const std::string& text : upstreams) {
    TRY_ASSIGN(driver::ReplicaSpec spec, ride::ParseUpstream(text));
    for (const driver::ReplicaSpec& other : specs) {
      if (other.name == spec.name) {
        return Fail(Code::kInvalidArgument,
                    "--upstream " + text + ": another one is called " + spec.name + " already");
      }
    }
    spec.options = Json::Object{};
    specs.push_back(std::move(spec));
  }
  return specs;
}

namespace {

// Where all replicas are to be found nobody is there yet to whom they could be given.
Status RefuseFlagsOfOne(const UpstreamFlags& flags) {
  const std::pair<const char*, bool> kGiven[] = {
      {"--upstream-model", !flags.model.empty()},
      {"--upstream-api-key", !flags.api_key.empty()},
      {"--upstream-api-key-file", !flags.api_key_files.empty()},
      {"--upstream-metrics-url", !flags.metrics_urls.empty()},
      {"--upstream-kv-events", !flags.kv_events.empty()},
      {"--upstream-data-parallel-rank", !flags.data_parallel_ranks.empty()}};
  for (const auto& [flag, given] : kGiven) {
    if (given) {
      return Fail(Code::kInvalidArgument,
                  std::string(flag) +
                      ": is for upstreams that are named at the start, and the TOML file says only "
                      "where some are found");
    }
  }
  return {};
}

}  // namespace

void ApplyFlagsOfAll(const UpstreamFlags& flags, driver::ReplicaSpec& spec) {
  AddToList(spec.options, "allow_fields", flags.allowed_fields);
  AddToList(spec.options, "allow_headers", flags.allowed_headers);
}

Status ApplyUpstreamFlags(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  if (specs.empty()) {
    return RefuseFlagsOfOne(flags);
  }
  if (!flags.model.empty()) {
    if (specs.size() > 1) {
      return Fail(
          Code::kInvalidArgument,
          "--upstream-model is for one upstream: several are chosen by the models that they list");
    }
    specs.front().model = flags.model;
  }
  for (driver::ReplicaSpec& spec : specs) {
    ApplyFlagsOfAll(flags, spec);
  }
  TRY(GiveKeys(flags, specs));
  TRY(GiveMetricsUrls(flags, specs));
  TRY(GiveRanks(flags, specs));
  return GiveKvEvents(flags, specs);
}

Result<StartedUpstreams> StartUpstreams(const std::vector<driver::ReplicaSpec>& specs,
                                        const std::vector<std::string>& served_names,
                                        const UpstreamFlags& flags, DriverMaker& maker) {
  TRY_ASSIGN(auto policy, fleet::MakeRoutingPolicy(flags.routing_policy));
  std::vector<fleet::FleetMember> members;
  std::vector<ride::UpstreamDriver*> upstreams;
  for (const driver::ReplicaSpec& spec : specs) {
    TRY_ASSIGN(std::unique_ptr<driver::EngineDriver> made, maker.Make(spec));
    upstreams.push_back(maker.maybe_last_upstream());
    members.push_back(
        {{.name = spec.name, .weight = spec.weight, .max_concurrency = spec.max_concurrency},
         std::move(made)});
  }
  StartedUpstreams started;
  started.driver = std::make_unique<fleet::FleetDriver>(
      std::move(members),
      fleet::FleetOptions{.policy = std::move(policy),
                          .dispatch = {.resume_streams = flags.resume_streams}},
      Clock::Real(), RandomSource::Real());
  TRY(started.driver->Start());
  started.count = specs.size();
  std::vector<Found> found;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);  // for all of them
  for (size_t i = 0; i < specs.size(); ++i) {
    started.urls += (i == 0 ? "" : ", ") + specs[i].url;
    found.push_back(Find(*upstreams[i], specs[i], until));
    if (found.back().maybe_endpoint != nullptr) {
      ++started.answering;
    }
    const int every = upstreams[i]->probe_every_ms();
    started.probe_every_ms = i == 0 ? every : std::min(started.probe_every_ms, every);
  }
  TRY_ASSIGN(const OwnNames own, FindOwnNames(served_names, WithTheirModelsOnly(found)));
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].model.empty()) {
      upstreams[i]->StandFor(own.names, own.model);
    } else {
      started.driver->SetModels(specs[i].name, NamesOf(specs[i].model, own));
    }
  }
  maker.SetOwnNames(own.names, own.model);
  started.models_of = [own](const driver::ReplicaSpec& spec) {
    return spec.model.empty() ? std::vector<std::string>() : NamesOf(spec.model, own);
  };
  WarnOfModels(served_names, found);
  started.maybe_chat_model = ChatModel(found, served_names);
  return started;
}

}  // namespace fak::cli

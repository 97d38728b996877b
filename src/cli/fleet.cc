#include <CLI/CLI.hpp>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/key_file.h"
#include "base/limits.h"
#include "base/printable.h"
#include "base/strings.h"
#include "cli/interruptible.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/url.h"
#include "ride/upstream_spec.h"

// fak fleet: looks at a fleet that serves, and changes it, over its API.
namespace fak::cli {
namespace {

constexpr const char* kDefaultUrl = "http://127.0.0.1:8000";

struct FleetFlags {
  std::string url = kDefaultUrl;
  std::string api_key;
  std::string api_key_file;
  std::string ca_file;
  std::string name;  // of add: [NAME=][ENGINE+]URL; of explain: a file
  std::string model;
  std::string replica_key_file;
  std::vector<std::string> metrics_urls;
  std::vector<std::string> kv_events;
  std::vector<std::string> allowed_fields;
  std::vector<std::string> allowed_headers;
  std::optional<int32_t> rank;
  std::optional<double> weight;
  std::optional<int32_t> max_concurrency;
  std::optional<int32_t> generation_probe_interval_s;
  std::optional<int32_t> generation_probe_timeout_s;
  bool watch = false;
  bool json = false;
  bool wait = false;
  bool persist = false;
};

// A fak that serves.
class FleetClient {
 public:
  static Result<std::unique_ptr<FleetClient>> Make(const FleetFlags& flags) {
    std::unique_ptr<FleetClient> made(new FleetClient());
    TRY_ASSIGN(const net::Url url, net::ParseUrl(flags.url));
    made->origin_ = url.origin;
    made->base_ = url.target == "/" ? "" : url.target;
    if (!flags.api_key.empty()) {
      TRY_ASSIGN(made->key_, CleanKey(flags.api_key, "--api-key"));
    }
    if (!flags.api_key_file.empty()) {
      TRY_ASSIGN(made->key_, ReadKeyFile(flags.api_key_file));
    }
    TRY_ASSIGN(net::ProxyRules proxies, net::ProxyRules::FromEnvironment());
    made->loop_.Start("fleet");
    TRY_ASSIGN(made->client_, net::HttpClient::Make(made->loop_, {.tls = {.ca_file = flags.ca_file},
                                                                  .proxies = std::move(proxies)}));
    return made;
  }
  ~FleetClient() {
    client_.reset();
    loop_.Stop();
  }

  Result<Json> Ask(const std::string& method, const std::string& path, std::string body = "") {
    constexpr size_t kBytesMax = 4 * 1024 * 1024;
    net::HttpClientRequest request;
    request.method = method;
    request.origin = origin_;
    request.target = base_ + path;
    request.body = std::move(body);
    if (!key_.empty()) {
      request.headers.Add("authorization", "Bearer " + key_);
    }
    if (!request.body.empty()) {
      request.headers.Add("content-type", "application/json");
    }
    Result<net::HttpResponse> response =
        net::FetchAndWait(loop_, *client_, std::move(request), kBytesMax);
    if (!response) {
      response.error().detail += WhichServer();
      return Fail(std::move(response).error());
    }
    Result<Json> document = ParseJson(response->body);
    if (response->status != 200) {
      const Json* error = document ? document->Find("error") : nullptr;
      const Json* message = error != nullptr ? error->Find("message") : nullptr;
      const std::string said =
          message != nullptr && message->is_string() ? ": " + message->string() : "";
      // Else it is a replica or a model that isn't there.
      const bool no_fleet =
          response->status == 404 && (said.empty() || said.starts_with(": there is no "));
      return Fail(Code::kUpstreamError, origin_.ToString() + " answered " +
                                            std::to_string(response->status) + said +
                                            (no_fleet ? WhichServer() : ""));
    }
    return document;
  }

 private:
  FleetClient() = default;

  static std::string WhichServer() {
    return std::string("; --url says where the fleet is served (default: ") + kDefaultUrl + ")";
  }

  net::Origin origin_;
  std::string base_;
  std::string key_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpClient> client_;
};

std::string TextOf(const Json& replica, const char* key) {
  const Json* value = replica.Find(key);
  return value != nullptr && value->is_string() ? Printable(value->string()) : "";
}

std::optional<double> NumberOf(const Json& replica, const char* key) {
  const Json* value = replica.Find(key);
  return value != nullptr && value->is_number() ? std::optional(value->number()) : std::nullopt;
}

std::string Count(std::optional<double> value) {
  return value ? std::to_string(static_cast<int64_t>(*value)) : "-";
}

std::string Percent(std::optional<double> value) {
  constexpr double kHundred = 100;
  return value ? std::to_string(std::llround(*value * kHundred)) + "%" : "-";
}

std::string Time(std::optional<double> seconds) {
  return seconds
             ? FormatDuration(static_cast<int64_t>(*seconds * static_cast<double>(kNsPerSecond)))
             : "-";
}

std::vector<std::string> RowOf(const Json& replica) {
  std::vector<std::string> models;
  if (const Json* list = replica.Find("models"); list != nullptr && list->is_array()) {
    for (const Json& model : list->array()) {
      models.push_back(model.is_string() ? Printable(model.string()) : "");
    }
  }
  const std::string version = TextOf(replica, "version");
  const auto running = NumberOf(replica, "running");
  return {TextOf(replica, "name"),
          TextOf(replica, "state"),
          Count(running ? running : NumberOf(replica, "in_flight")),
          Count(NumberOf(replica, "waiting")),
          Percent(NumberOf(replica, "kv_usage")),
          Percent(NumberOf(replica, "hit_rate")),
          Time(NumberOf(replica, "ttft_p50_s")),
          Time(NumberOf(replica, "ttft_p99_s")),
          TextOf(replica, "breaker"),
          TextOf(replica, "engine") + (version.empty() ? "" : " " + version),
          models.empty() ? "-" : Join(models, ","),
          TextOf(replica, "why")};
}

// "gpt-4: qwen-72b 95, qwen-next 5; then qwen-7b", a line each.
std::string ModelLines(const Json& fleet) {
  const Json* models = fleet.Find("models");
  std::string out;
  if (models == nullptr || !models->is_array()) {
    return out;
  }
  for (const Json& model : models->array()) {
    const Json* to = model.Find("to");
    const Json* fallback = model.Find("fallback");
    if (to == nullptr || !to->is_array() || fallback == nullptr || !fallback->is_array()) {
      continue;
    }
    std::vector<std::string> parts;
    for (const Json& target : to->array()) {
      const Json* weight = target.Find("weight");
      parts.push_back(TextOf(target, "model") +
                      (weight == nullptr || to->array().size() == 1 ? "" : " " + weight->Dump()));
    }
    out += "model " + TextOf(model, "name") + ": " + Join(parts, ", ");
    for (const Json& each : fallback->array()) {
      out += "; then " + (each.is_string() ? Printable(each.string()) : "");
    }
    const auto fallbacks = NumberOf(model, "fallbacks");
    out += fallbacks && *fallbacks > 0 ? " (" + Count(fallbacks) + " fallbacks)\n" : "\n";
  }
  return out;
}

std::string TableOf(const Json& fleet) {
  std::vector<std::vector<std::string>> rows = {{"REPLICA", "STATE", "RUNNING", "WAITING", "KV",
                                                 "HITS", "TTFT P50", "P99", "BREAKER", "ENGINE",
                                                 "MODELS", "WHY"}};
  if (const Json* replicas = fleet.Find("replicas"); replicas != nullptr && replicas->is_array()) {
    for (const Json& replica : replicas->array()) {
      rows.push_back(RowOf(replica));
    }
  }
  std::string out = LinedUp(rows);
  out += "policy " + TextOf(fleet, "policy");
  const Json* panic = fleet.Find("panic");
  if (panic != nullptr && panic->is_bool() && panic->boolean()) {
    out += "; nobody is healthy or suspect: requests go to all that are not drained";
  }
  out += "\n" + ModelLines(fleet);
  if (const Json* sources = fleet.Find("sources"); sources != nullptr && sources->is_array()) {
    for (const Json& source : sources->array()) {
      if (const std::string error = TextOf(source, "error"); !error.empty()) {
        out += TextOf(source, "name") + ": the fleet stays as it was: " + error + "\n";
      }
    }
  }
  return out;
}

void WaitASecond() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::seconds(1), [] { return false; });
}

Status ShowStatus(const FleetFlags& flags) {
  TRY_ASSIGN(const auto client, FleetClient::Make(flags));
  for (;;) {
    TRY_ASSIGN(const Json fleet, client->Ask("GET", "/v1/fak/fleet"));
    const bool screen = flags.watch && !flags.json && isatty(STDOUT_FILENO) != 0;
    const std::string out = flags.json ? fleet.Dump() + "\n" : TableOf(fleet);
    std::printf("%s%s", screen ? "\x1b[H\x1b[2J" : "", out.c_str());
    if (!flags.watch || std::fflush(stdout) != 0) {
      return {};
    }
    WaitASecond();
  }
}

// Null where nobody is called that.
const Json* FindReplica(const Json& fleet, const std::string& name) {
  const Json* replicas = fleet.Find("replicas");
  if (replicas == nullptr || !replicas->is_array()) {
    return nullptr;
  }
  for (const Json& replica : replicas->array()) {
    const Json* its = replica.Find("name");
    if (its != nullptr && its->is_string() && its->string() == name) {
      return &replica;
    }
  }
  return nullptr;
}

// Of a call that changes the one of that name.
Json ChangeOf(const FleetFlags& flags) {
  Json body = Json::Object{};
  body.Set("name", flags.name);
  if (flags.persist) {
    body.Set("persist", true);
  }
  return body;
}

Status SetDraining(const FleetFlags& flags, bool draining) {
  TRY_ASSIGN(const auto client, FleetClient::Make(flags));
  const Json body = ChangeOf(flags);
  TRY_ASSIGN(
      Json fleet,
      client->Ask("POST", draining ? "/v1/fak/fleet/drain" : "/v1/fak/fleet/undrain", body.Dump()));
  for (;;) {
    const Json* replica = FindReplica(fleet, flags.name);
    const double open = replica == nullptr ? 0 : NumberOf(*replica, "in_flight").value_or(0);
    if (!flags.wait || open == 0) {
      std::printf("%s: %s, %s requests open\n", Printable(flags.name).c_str(),
                  replica == nullptr ? "gone" : TextOf(*replica, "state").c_str(),
                  Count(open).c_str());
      return {};
    }
    WaitASecond();
    TRY_ASSIGN(fleet, client->Ask("GET", "/v1/fak/fleet"));
  }
}

// Of what was given alone: the server has the defaults.
Result<Json> ReplicaOf(const FleetFlags& flags) {
  if (flags.name.find_first_of("=:/.") == std::string::npos) {
    return Fail(Code::kInvalidArgument,
                flags.name + ": is a name without a URL: " + flags.name + "=http://HOST:PORT");
  }
  TRY_ASSIGN(const driver::ReplicaSpec spec, ride::ParseUpstream(flags.name));
  Json replica = Json::Object{};
  replica.Set("name", spec.name);
  replica.Set("engine", spec.engine);
  replica.Set("url", spec.url);
  if (!flags.model.empty()) {
    replica.Set("model", flags.model);
  }
  if (!flags.replica_key_file.empty()) {
    TRY_ASSIGN(std::string key, ReadKeyFile(flags.replica_key_file));
    replica.Set("api_key", std::move(key));
  }
  const auto list = [&replica](const char* key, const std::vector<std::string>& texts) {
    if (!texts.empty()) {
      replica.Set(key, Json::Array(texts.begin(), texts.end()));
    }
  };
  list("metrics_urls", flags.metrics_urls);
  list("kv_events", flags.kv_events);
  list("allow_fields", flags.allowed_fields);
  list("allow_headers", flags.allowed_headers);
  if (flags.rank) {
    replica.Set("data_parallel_rank", *flags.rank);
  }
  if (flags.weight) {
    replica.Set("weight", *flags.weight);
  }
  if (flags.max_concurrency) {
    replica.Set("max_concurrency", *flags.max_concurrency);
  }
  if (flags.generation_probe_interval_s) {
    replica.Set("generation_probe_interval", *flags.generation_probe_interval_s);
  }
  if (flags.generation_probe_timeout_s) {
    replica.Set("generation_probe_timeout", *flags.generation_probe_timeout_s);
  }
  if (flags.persist) {
    replica.Set("persist", true);
  }
  return replica;
}

Status AddReplica(const FleetFlags& flags) {
  TRY_ASSIGN(const Json replica, ReplicaOf(flags));
  TRY_ASSIGN(const auto client, FleetClient::Make(flags));
  TRY_ASSIGN(const Json fleet, client->Ask("POST", "/v1/fak/fleet/add", replica.Dump()));
  const std::string& name = replica.Find("name")->string();
  const Json* added = FindReplica(fleet, name);
  std::printf("%s: %s\n", Printable(name).c_str(),
              added == nullptr ? "gone" : TextOf(*added, "state").c_str());
  return {};
}

// One of that name that comes meanwhile is another one.
const Json* FindLeaving(const Json& fleet, const std::string& name) {
  const Json* replicas = fleet.Find("replicas");
  if (replicas == nullptr || !replicas->is_array()) {
    return nullptr;
  }
  for (const Json& replica : replicas->array()) {
    if (TextOf(replica, "name") == Printable(name) && replica.Find("leaving") != nullptr) {
      return &replica;
    }
  }
  return nullptr;
}

Status RemoveReplica(const FleetFlags& flags) {
  TRY_ASSIGN(const auto client, FleetClient::Make(flags));
  TRY_ASSIGN(Json fleet, client->Ask("POST", "/v1/fak/fleet/remove", ChangeOf(flags).Dump()));
  for (;;) {
    const Json* leaving = FindLeaving(fleet, flags.name);
    if (leaving == nullptr) {
      std::printf("%s: gone\n", Printable(flags.name).c_str());
      return {};
    }
    if (!flags.wait) {
      std::printf("%s: leaves, %s requests open\n", Printable(flags.name).c_str(),
                  Count(NumberOf(*leaving, "in_flight")).c_str());
      return {};
    }
    WaitASecond();
    TRY_ASSIGN(fleet, client->Ask("GET", "/v1/fak/fleet"));
  }
}

void AddPersist(CLI::App& verb, FleetFlags& flags) {
  verb.add_flag("--persist", flags.persist,
                "Keep it for the next start too, in the server's --fleet-state-file");
}

void AddServer(CLI::App& verb, FleetFlags& flags) {
  verb.add_option("--url", flags.url, "The fak that serves the fleet")->capture_default_str();
  verb.add_option("--api-key", flags.api_key, "An admin's key there (better: FAK_API_KEY)");
  verb.add_option("--api-key-file", flags.api_key_file, "File with that key");
  verb.add_option("--ca-file", flags.ca_file, "PEM certificates to trust instead of the system's");
}

std::string ExplanationTable(const Json& said) {
  const std::string chosen = TextOf(said, "chosen");
  std::vector<std::vector<std::string>> rows = {
      {"  REPLICA", "STATE", "COST", "CACHED", "BACKLOG", "OPEN", "WEIGHT", "WHY NOT"}};
  if (const Json* replicas = said.Find("replicas"); replicas != nullptr && replicas->is_array()) {
    for (const Json& replica : replicas->array()) {
      const std::string name = TextOf(replica, "name");
      const Json* weight = replica.Find("weight");
      rows.push_back({(name == chosen ? "* " : "  ") + name, TextOf(replica, "state"),
                      Count(NumberOf(replica, "cost")), Count(NumberOf(replica, "cached_tokens")),
                      Count(NumberOf(replica, "backlog_tokens")),
                      Count(NumberOf(replica, "in_flight")),
                      weight == nullptr ? "-" : weight->Dump(), TextOf(replica, "why_not")});
    }
  }
  const std::string model = TextOf(said, "model");
  return LinedUp(rows) + "policy " + TextOf(said, "policy") +
         (model.empty() ? "" : ", model " + model) + ", prompt of " +
         Count(NumberOf(said, "prompt_tokens")) + " tokens\n" +
         (chosen.empty() ? "nobody: " : chosen + ": ") + TextOf(said, "why") + "\n";
}

Status Explain(const FleetFlags& flags) {
  TRY_ASSIGN(std::string request, flags.name == "-"
                                      ? ReadStandardInput()
                                      : ReadFile(flags.name, limits::kTextInputBytesMax));
  TRY_ASSIGN(const auto client, FleetClient::Make(flags));
  TRY_ASSIGN(const Json said, client->Ask("POST", "/v1/fak/fleet/explain", std::move(request)));
  const std::string out = flags.json ? said.Dump() + "\n" : ExplanationTable(said);
  std::printf("%s", out.c_str());
  return {};
}

CLI::App* AddExplain(CLI::App& fleet, FleetFlags& flags) {
  CLI::App* verb = fleet.add_subcommand("explain", "Say where a request would go now, and why");
  verb->add_option("request", flags.name, "File with a chat or completion request; -: stdin")
      ->required();
  verb->add_flag("--json", flags.json, "Print JSON");
  AddServer(*verb, flags);
  verb->footer(
      "Examples:\n  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Say hello\"}]}' "
      "> request.json\n"
      "  fak fleet explain request.json\n"
      "Nothing is sent anywhere. Caches are looked up as those of the key's own tenant.");
  return verb;
}

CLI::App* AddAdd(CLI::App& fleet, FleetFlags& flags) {
  CLI::App* verb =
      fleet.add_subcommand("add", "Take a replica in, until it is removed or fak ends");
  verb->add_option("replica", flags.name, "[NAME=][ENGINE+]URL")->required();
  verb->add_option("--replica-model", flags.model, "Model to ask it for");
  verb->add_option("--replica-api-key-file", flags.replica_key_file, "File with its own key");
  verb->add_option("--replica-metrics-url", flags.metrics_urls,
                   "Where its metrics are, when not at its /metrics; repeatable")
      ->allow_extra_args(false);
  verb->add_option(
          "--replica-kv-events", flags.kv_events,
          "ENDPOINT[,replay=ENDPOINT][,topic=PREFIX][,rank=N] of its KV events; repeatable")
      ->allow_extra_args(false);
  verb->add_option("--replica-data-parallel-rank", flags.rank, "The rank of a vLLM");
  verb->add_option("--replica-allow-field", flags.allowed_fields,
                   "Let clients set this field that steers it; repeatable")
      ->allow_extra_args(false);
  verb->add_option("--replica-allow-header", flags.allowed_headers,
                   "Pass this header of clients on to it; repeatable")
      ->allow_extra_args(false);
  verb->add_option("--weight", flags.weight, "Its share (default: 1)");
  verb->add_option("--max-concurrency", flags.max_concurrency,
                   "Requests open there at once (default: as many as come)");
  verb->add_option("--generation-probe-interval", flags.generation_probe_interval_s,
                   "Seconds without a word from it after which it is asked for one token; 0: never "
                   "(default: fak serve's; of fak and hosted APIs 0)");
  verb->add_option("--generation-probe-timeout", flags.generation_probe_timeout_s,
                   "Seconds that it has for that (default: fak serve's)");
  AddPersist(*verb, flags);
  AddServer(*verb, flags);
  verb->footer(
      "Examples:\n  fak fleet add c=vllm+http://10.0.0.7:8000 --weight 2\n"
      "A reload of the fleet file leaves it; a restart doesn't know it, but for --persist.");
  return verb;
}

CLI::App* AddRemove(CLI::App& fleet, FleetFlags& flags) {
  CLI::App* verb = fleet.add_subcommand("remove", "Take a replica out; what it has ends first");
  verb->add_option("name", flags.name, "Its name")->required();
  verb->add_flag("--wait", flags.wait, "Until none of our requests is open there");
  AddPersist(*verb, flags);
  AddServer(*verb, flags);
  verb->footer("Examples:\n  fak fleet remove c --wait");
  return verb;
}

ExitStatus StatusOf(const Status& done) {
  return done ? 0 : PrintError(done.error());
}

}  // namespace

std::function<ExitStatus()> AddFleet(Program& program) {
  CLI::App* verb =
      program.app.add_subcommand("fleet", "Look at a fleet that serves, and change it");
  verb->require_subcommand(1);
  verb->footer("Example:\n  fak fleet status --watch");
  const auto flags = std::make_shared<FleetFlags>();
  CLI::App* status = verb->add_subcommand("status", "Show the replicas and how they are");
  status->add_flag("--watch", flags->watch, "Again every second");
  status->add_flag("--json", flags->json, "Print JSON");
  AddServer(*status, *flags);
  status->footer(
      "Examples:\n  fak fleet status --watch\n"
      "  fak fleet status --url http://10.0.0.1:8000 --api-key-file admin.key --json");
  CLI::App* drain =
      verb->add_subcommand("drain", "Send a replica nothing new; what it has goes on");
  drain->add_option("name", flags->name, "Its name")->required();
  drain->add_flag("--wait", flags->wait, "Until none of our requests is open there");
  AddPersist(*drain, *flags);
  AddServer(*drain, *flags);
  drain->footer("Examples:\n  fak fleet drain a --wait");
  CLI::App* undrain = verb->add_subcommand("undrain", "Send a replica requests again");
  undrain->add_option("name", flags->name, "Its name")->required();
  AddPersist(*undrain, *flags);
  AddServer(*undrain, *flags);
  undrain->footer("Examples:\n  fak fleet undrain a");
  CLI::App* add = AddAdd(*verb, *flags);
  CLI::App* remove = AddRemove(*verb, *flags);
  CLI::App* explain = AddExplain(*verb, *flags);
  return [status, drain, add, remove, explain, flags]() -> ExitStatus {
    const Interruptible interruptible;
    if (status->parsed()) {
      return StatusOf(ShowStatus(*flags));
    }
    if (add->parsed()) {
      return StatusOf(AddReplica(*flags));
    }
    if (explain->parsed()) {
      return StatusOf(Explain(*flags));
    }
    if (remove->parsed()) {
      return StatusOf(RemoveReplica(*flags));
    }
    return StatusOf(SetDraining(*flags, drain->parsed()));
  };
}

}  // namespace fak::cli

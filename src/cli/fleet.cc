#include <CLI/CLI.hpp>

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/key_file.h"
#include "base/printable.h"
#include "base/strings.h"
#include "cli/interruptible.h"
#include "cli/verbs.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/url.h"

// fak fleet: looks at a fleet that serves, and changes it, over its API.
namespace fak::cli {
namespace {

struct FleetFlags {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  std::string api_key_file;
  std::string ca_file;
  std::string name;
  bool watch = false;
  bool json = false;
  bool wait = false;
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
    TRY_ASSIGN(const net::HttpResponse response,
               net::FetchAndWait(loop_, *client_, std::move(request), kBytesMax));
    Result<Json> document = ParseJson(response.body);
    if (response.status != 200) {
      const Json* error = document ? document->Find("error") : nullptr;
      const Json* message = error != nullptr ? error->Find("message") : nullptr;
      return Fail(Code::kUpstreamError,
                  origin_.ToString() + " answered " + std::to_string(response.status) +
                      (message != nullptr && message->is_string() ? ": " + message->string() : ""));
    }
    return document;
  }

 private:
  FleetClient() = default;

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
  return value ? std::to_string(static_cast<int>(*value * kHundred + 0.5)) + "%" : "-";
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
  return out + "\n";
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

Status SetDraining(const FleetFlags& flags, bool draining) {
  TRY_ASSIGN(const auto client, FleetClient::Make(flags));
  Json body = Json::Object{};
  body.Set("name", flags.name);
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

void AddServer(CLI::App& verb, FleetFlags& flags) {
  verb.add_option("--url", flags.url, "The fak that serves the fleet")->capture_default_str();
  verb.add_option("--api-key", flags.api_key, "An admin's key there (better: FAK_API_KEY)");
  verb.add_option("--api-key-file", flags.api_key_file, "File with that key");
  verb.add_option("--ca-file", flags.ca_file, "PEM certificates to trust instead of the system's");
}

ExitStatus StatusOf(const Status& done) {
  return done ? 0 : PrintError(done.error());
}

}  // namespace

std::function<ExitStatus()> AddFleet(Program& program) {
  CLI::App* verb = program.app.add_subcommand("fleet", "Look at a fleet that serves, and drain it");
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
  AddServer(*drain, *flags);
  drain->footer("Examples:\n  fak fleet drain a --wait");
  CLI::App* undrain = verb->add_subcommand("undrain", "Send a replica requests again");
  undrain->add_option("name", flags->name, "Its name")->required();
  AddServer(*undrain, *flags);
  undrain->footer("Examples:\n  fak fleet undrain a");
  return [status, drain, flags]() -> ExitStatus {
    const Interruptible interruptible;
    if (status->parsed()) {
      return StatusOf(ShowStatus(*flags));
    }
    return StatusOf(SetDraining(*flags, drain->parsed()));
  };
}

}  // namespace fak::cli

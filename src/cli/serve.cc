#include <arpa/inet.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "base/descriptor_limit.h"
#include "base/key_file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/signal.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "base/version.h"
#include "cli/driver_maker.h"
#include "cli/engine_flags.h"
#include "cli/latch.h"
#include "cli/number_flag.h"
#include "cli/origin_flag.h"
#include "cli/replicas.h"
#include "cli/serve_help.h"
#include "cli/upstreams.h"
#include "cli/verbs.h"
#include "fleet/membership.h"
#include "gateway/gateway.h"
#include "gateway/kv_event_publisher.h"
#include "net/http_server.h"
#include "net/url.h"
#include "text/chat_template.h"

namespace fak::cli {
namespace {

struct ServeFlags {
  EngineFlags engine;
  bool model_was_typed = false;  // on the command line, and not in the environment or the file
  // Options that change nothing in front of an upstream, and those of them that were typed.
  std::vector<const CLI::Option*> native_options;
  std::vector<const CLI::Option*> typed_native_options;
  // The other way round.
  std::vector<const CLI::Option*> upstream_options;
  std::vector<const CLI::Option*> typed_upstream_options;
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  UpstreamFlags upstream;
  std::vector<driver::ReplicaSpec> replicas;      // what is served; none where they are to be found
  std::vector<fleet::DiscoverySpec> discoveries;  // where
  std::string fleet_file;                         // that names them; empty: flags do
  std::vector<std::string> served_model_names;
  std::vector<std::string> api_keys;
  std::string keys_file;
  bool allow_unauthenticated = false;
  bool trust_request_chat_template = false;
  std::string tool_call_parser = "auto";
  std::string allowed_origin;
  std::vector<std::string> slos;
  std::string ssl_certfile;
  std::string ssl_keyfile;
  std::string kv_events_config;
  bool allow_public_kv_events = false;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;
  double request_timeout_s = 0;
  int shutdown_timeout_s = 30;
  int shutdown_settle_ms = 500;

  bool native() const {
    return !replicas.empty() && replicas.front().engine == driver::kNativeEngine;
  }
};

// What answers, and what the gateway knows of its model.
struct Served {
  std::unique_ptr<driver::EngineDriver> driver;
  fleet::FleetDriver* maybe_fleet = nullptr;  // the same, where it is one
  std::unique_ptr<fleet::Membership> membership;
  std::unique_ptr<fleet::Discoveries> discoveries;
  // That it listens on; 0: not yet. Membership has it too.
  std::shared_ptr<std::atomic<uint16_t>> port = std::make_shared<std::atomic<uint16_t>>(0);
  std::vector<std::string> names;
  std::shared_ptr<metrics::Emitter> emitter;
  std::string about;    // of the ready line
  std::string why_not;  // ready; empty: it is
  // What a client can ask for in a chat, or, where the model has no chat template, a completion;
  // empty: one that names no model. Nullopt: nothing is sure to be answered.
  std::optional<std::string> maybe_model;
};

// Numeric, of either kind; IPv6 without brackets.
bool IsAddress(const std::string& host) {
  const std::string text = host.substr(0, host.find('%'));  // without a link-local's interface
  in6_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

std::string AddressOf(const ServeFlags& flags) {
  return flags.host == "localhost" ? "127.0.0.1" : flags.host;
}

Result<gateway::KeyRing> MakeKeys(const ServeFlags& flags) {
  gateway::KeyRing keys;
  for (const std::string& given : flags.api_keys) {
    TRY_ASSIGN(const std::string key, CleanKey(given, "--api-key"));
    // Beside other tenants it is one too, or its salts could spell theirs.
    keys.Add(key, {flags.keys_file.empty() ? "" : "api-key", 1.0, true});
  }
  if (!flags.keys_file.empty()) {
    TRY(keys.AddFile(flags.keys_file));
  }
  if (flags.host != "localhost" && !IsAddress(flags.host)) {
    return Fail(
        Code::kInvalidArgument,
        "--host " + flags.host +
            ": must be an address of this machine (127.0.0.1, ::1, 0.0.0.0 ...) or localhost",
        "--host");
  }
  if (keys.empty() && !net::IsLoopbackHost(flags.host) && !flags.allow_unauthenticated) {
    return Fail(Code::kPermissionDenied,
                "--host " + flags.host +
                    " would let anyone on the network in: give --api-key or --keys-file, or say "
                    "--allow-unauthenticated");
  }
  return keys;
}

Result<std::vector<metrics::Slo>> ReadSlos(const ServeFlags& flags) {
  if (flags.slos.size() > limits::kSlosMax) {
    return Fail(Code::kInvalidArgument,
                "--slo: at most " + std::to_string(limits::kSlosMax) + " objectives", "--slo");
  }
  std::vector<metrics::Slo> slos;
  for (const std::string& text : flags.slos) {
    TRY_ASSIGN(metrics::Slo slo, metrics::ParseSlo(text));
    for (const metrics::Slo& other : slos) {
      if (other.name == slo.name) {
        return Fail(Code::kInvalidArgument, "--slo " + slo.name + ": given twice", "--slo");
      }
    }
    slos.push_back(std::move(slo));
  }
  return slos;
}

// Upstreams' flags where there is none. Only those that were typed: a key in the environment may be
// there for other runs.
Status RefuseUpstreamFlags(const ServeFlags& flags) {
  if (!flags.native() || flags.typed_upstream_options.empty()) {
    return {};
  }
  return Fail(Code::kInvalidArgument,
              SourceOf(*flags.typed_upstream_options.front(), /*typed=*/true) +
                  ": is for an upstream, and a model is served here; give --upstream too, or leave "
                  "it out",
              "--upstream");
}

// A word that would be read as a model to load where none is loaded.
Status RefuseTypedModel(const ServeFlags& flags) {
  const std::string& model = flags.engine.model;
  if (!flags.model_was_typed || flags.upstream.upstreams.empty()) {
    return {};
  }
  const bool url = model.find("://") != std::string::npos;
  return Fail(Code::kInvalidArgument,
              model + (url ? ": one URL follows --upstream; repeat the flag for each: --upstream " +
                                 flags.upstream.upstreams.back() + " --upstream " + model
                           : ": no model is loaded in front of an upstream; leave it out, or ask "
                             "the upstream for it: --upstream-model " +
                                 model),
              "--upstream");
}

// A flag that is taken does what it says, and no engine but ours reads these.
Status RefuseNativeFlags(const ServeFlags& flags) {
  if (flags.native()) {
    return {};
  }
  const std::vector<const CLI::Option*>& typed = flags.typed_native_options;
  for (const CLI::Option* option : flags.native_options) {
    if (option->count() > 0) {
      const bool was_typed = std::find(typed.begin(), typed.end(), option) != typed.end();
      return Fail(Code::kInvalidArgument,
                  SourceOf(*option, was_typed) +
                      ": is for a model that is served here, and changes nothing in front of " +
                      (flags.replicas.empty() ? "others" : flags.replicas.front().url) +
                      "; leave it out, or give it to that engine",
                  "--upstream");
    }
  }
  return {};
}

Result<Served> MakeNative(const ServeFlags& flags, DriverMaker& maker) {
  Served served;
  TRY_ASSIGN(served.driver, maker.Make(flags.replicas.front()));
  const auto capabilities = served.driver->capabilities();
  served.names = capabilities->models;
  served.maybe_model = served.names.front();
  served.emitter = maker.maybe_native_emitter();
  served.about = served.names.front() + ", " + capabilities->about;
  return served;
}

// glibc learns from the first large blocks that are freed to keep later ones: after some prompts of
// megabytes a gateway would hold several times their size for good.
void GiveLargeBlocksBack() {
#ifdef __GLIBC__
  constexpr int kLargeBytes = 1024 * 1024;
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
#endif
}

// Of the replicas that are there from the start.
std::string SourceName(const ServeFlags& flags) {
  return flags.fleet_file.empty() ? "flags" : flags.fleet_file;
}

Result<Served> MakeRidden(const ServeFlags& flags, const std::optional<ConfigTable>& maybe_file,
                          metrics::Registry& metrics, DriverMaker& maker) {
  constexpr int kMsPerSecond = 1000;
  GiveLargeBlocksBack();
  Served served;
  served.names = flags.served_model_names;
  const std::string& state_file = flags.upstream.state_file;
  fleet::FleetState state;
  if (!state_file.empty()) {
    TRY_ASSIGN(state, fleet::OpenFleetState(state_file, CompleteReplica));
  }
  TRY_ASSIGN(StartedUpstreams started,
             StartUpstreams(flags.replicas, flags.served_model_names, flags.upstream, maker));
  served.maybe_fleet = started.driver.get();
  served.membership = std::make_unique<fleet::Membership>(
      *served.maybe_fleet, maker,
      fleet::Membership::Options{
          .complete = [flags = flags.upstream, address = AddressOf(flags),
                       port = served.port](driver::ReplicaSpec& spec) -> Status {
            ApplyFlagsOfAll(flags, spec);
            TRY(CompleteReplica(spec));
            return RefuseOwnAddress({spec}, {address, port->load()}, "url");
          },
          .models_of = std::move(started.models_of)},
      SourceName(flags), flags.replicas);
  if (!state_file.empty()) {
    if (const Status kept = served.membership->KeepIn(state_file, std::move(state)); !kept) {
      return Fail(Within(state_file, kept.error()));
    }
  }
  served.discoveries = std::make_unique<fleet::Discoveries>(*served.membership);
  if (maybe_file) {
    TRY(SetModels(*maybe_file, {flags.replicas, flags.discoveries}, SourceName(flags),
                  *served.membership, *served.maybe_fleet));
  }
  served.driver = std::move(started.driver);
  served.maybe_model = std::move(started.maybe_chat_model);
  const auto capabilities = served.driver->capabilities();
  served.emitter =
      metrics.MakeEmitter({.worker = "gateway",  // of no upstream in particular
                           .engine = capabilities->engine,
                           .model = flags.replicas.size() == 1 ? flags.replicas.front().model : "",
                           .source = "gateway"});
  served.about = "in front of " + started.urls;
  const std::string answering = std::to_string(started.answering) + " of " +
                                std::to_string(started.count) + " upstreams answer";
  if (started.count == 0) {
    served.about = "in front of those that will be found";
    served.why_not = "no upstream is known yet";
  } else if (started.answering == 0) {
    served.why_not = answering + "; asking again every " +
                     std::to_string(started.probe_every_ms / kMsPerSecond) + " s";
  } else if (started.answering < started.count) {
    served.about += "; " + answering;
  }
  return served;
}

// Null when no KV events are wanted. Before the driver starts.
Result<std::unique_ptr<gateway::KvEventPublisher>> PublishKvEvents(const ServeFlags& flags,
                                                                   driver::EngineDriver& driver,
                                                                   std::string& sources) {
  if (flags.kv_events_config.empty()) {
    return nullptr;
  }
  TRY_ASSIGN(const gateway::KvEventsConfig config,
             gateway::ParseKvEventsConfig(flags.kv_events_config));
  if (!flags.native()) {
    return Fail(Code::kInvalidArgument,
                "--kv-events-config is for a model that is served here: an upstream publishes its "
                "own",
                "--kv-events-config");
  }
  if (!config.enabled()) {
    return nullptr;
  }
  auto publisher = gateway::KvEventPublisher::Start(config, flags.allow_public_kv_events,
                                                    *driver.maybe_kv_events());
  if (!publisher) {
    Error error = Within("--kv-events-config", publisher.error());
    if (error.code == Code::kPermissionDenied) {
      error.detail += " (--allow-public-kv-events)";
    }
    return Fail(std::move(error));
  }
  sources = gateway::KvEventPublisher::Describe(config, **publisher).Dump();
  Log(LogLevel::kInfo, "KV events on {}", (*publisher)->endpoint());
  return publisher;
}

// A JSON string, inside a word that is in single quotes.
std::string ForShell(const std::string& text) {
  std::string quoted;
  for (const char c : Printable(Json(ReplaceInvalidUtf8(text)).Dump())) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted;
}

void PrintReady(const ServeFlags& flags, const net::HttpServer& server, const Served& served) {
  const std::string url = net::Origin{server.tls(), flags.host, server.port()}.ToString();
  if (served.why_not.empty()) {
    std::fprintf(stderr, "fak %s is ready on %s (%s)\n", kVersion, url.c_str(),
                 Printable(served.about).c_str());
  } else {
    std::fprintf(stderr, "fak %s is listening on %s, not ready: %s (%s)\n", kVersion, url.c_str(),
                 Printable(served.why_not).c_str(), Printable(served.about).c_str());
  }
  if (!served.maybe_model) {
    return;
  }
  const auto maybe_card = served.driver->maybe_card();
  const bool chats = maybe_card == nullptr || (maybe_card->maybe_chat_template != nullptr &&
                                               maybe_card->maybe_chat_template->readable());
  std::string options = server.tls() ? " --cacert " + ForShell(flags.ssl_certfile) : "";
  if (!flags.api_keys.empty() || !flags.keys_file.empty()) {
    options += " -H 'Authorization: Bearer YOUR_KEY'";
  }
  const std::string model =
      served.maybe_model->empty() ? "" : ",\"model\":" + ForShell(*served.maybe_model);
  if (chats) {
    std::fprintf(
        stderr,
        "try: curl %s/v1/chat/completions%s -d "
        "'{\"messages\":[{\"role\":\"user\",\"content\":\"Say hello\"}],\"max_tokens\":64%s}'\n",
        url.c_str(), options.c_str(), model.c_str());
  } else {
    std::fprintf(stderr,
                 "try: curl %s/v1/completions%s -d "
                 "'{\"prompt\":\"Once upon a time\",\"max_tokens\":64%s}'\n"
                 "(this model has no chat template: it completes text)\n",
                 url.c_str(), options.c_str(), model.c_str());
  }
}

// Whether all was sent before the time was over; a second signal ends the waiting too.
bool AllSent(Latch& sent, Latch& second_signal, std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < deadline &&
         !second_signal.WaitFor(std::chrono::milliseconds(0))) {
    if (sent.WaitFor(std::chrono::milliseconds(20))) {
      return true;
    }
  }
  return false;
}

// Not ready first, so that balancers look away; then no new work; then what is open may end, and
// what can't in time ends with an error.
void ShutDown(const ServeFlags& flags, gateway::Gateway& front, driver::EngineDriver& driver,
              net::HttpServer& server, Latch& second_signal) {
  constexpr std::chrono::milliseconds kLastWords{1000};  // for the errors to reach their clients
  Log(LogLevel::kInfo, "shutting down");
  front.SetDraining();
  if (const size_t open = server.stats().requests; open > 0) {
    std::fprintf(stderr, "fak: waiting up to %d s for %zu request%s; Ctrl-C again ends %s now\n",
                 flags.shutdown_timeout_s, open, open == 1 ? "" : "s", open == 1 ? "it" : "them");
  }
  const bool hurried = second_signal.WaitFor(std::chrono::milliseconds(flags.shutdown_settle_ms));
  driver.Drain([] {});
  const std::chrono::milliseconds time = std::chrono::seconds(flags.shutdown_timeout_s);
  const auto sent = std::make_shared<Latch>();
  server.Drain((time + kLastWords).count(), [sent] { sent->Set(); });
  if (hurried || !AllSent(*sent, second_signal, time)) {
    driver.Stop();
    sent->WaitFor(kLastWords);
  }
}

// A stream takes two.
constexpr uint64_t kDescriptorsWanted = 2 * limits::kHttpConnectionsMax + 1024;

Result<net::HttpServerOptions> ServerOptions(const ServeFlags& flags) {
  net::HttpServerOptions options;
  options.address = AddressOf(flags);
  options.port = flags.port;
  if (flags.ssl_certfile.empty() != flags.ssl_keyfile.empty()) {
    return Fail(Code::kInvalidArgument, "--ssl-certfile and --ssl-keyfile go together",
                "--ssl-certfile");
  }
  if (!flags.ssl_certfile.empty()) {
    options.tls = net::TlsServerOptions{flags.ssl_certfile, flags.ssl_keyfile};
  }
  options.limits.descriptors_max = DescriptorsForClients(RaiseDescriptorLimit(kDescriptorsWanted));
  return options;
}

Result<std::unique_ptr<net::HttpServer>> Listen(net::EventLoop& loop,
                                                const net::HttpServerOptions& options,
                                                net::HttpHandler& handler) {
  auto server = net::HttpServer::Start(loop, options, handler);
  if (!server && server.error().code == Code::kAlreadyExists) {
    server.error().detail += "; --port takes another one, 0 any that is free";
  }
  return server;
}

// Whether the server can listen as it shall, before a model is loaded for a minute in vain.
Status TryListening(net::EventLoop& loop, const net::HttpServerOptions& options) {
  class Deaf final : public net::HttpHandler {
    void OnRequest(net::HttpRequest&&, std::shared_ptr<net::ResponseWriter>) override {}
    net::HttpResponse OnFault(const net::HttpFault&) override { return {503, {}, ""}; }
  };
  Deaf deaf;
  TRY(Listen(loop, options, deaf));
  return {};
}

// 0: no bound, which nothing but 0 means.
int64_t RequestTimeoutMs(const ServeFlags& flags) {
  const int64_t ms = std::llround(flags.request_timeout_s * 1000);
  return flags.request_timeout_s > 0 ? std::max<int64_t>(ms, 1) : 0;
}

// Names as answers may hold them.
Status CleanNames(ServeFlags& flags) {
  for (std::string& name : flags.served_model_names) {
    if (name.empty()) {
      return Fail(Code::kInvalidArgument, "--served-model-name is empty", "--served-model-name");
    }
    name = ReplaceInvalidUtf8(name);
  }
  return {};
}

// nohup(1) started us: the terminal's end isn't ours.
bool IgnoresHangUp() {
  struct sigaction action = {};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::optional<text::ToolDialect> ToolDialectOf(const std::string& parser) {
  return parser == "hermes" ? std::optional(text::ToolDialect::kHermes)
         : parser == "none" ? std::optional(text::ToolDialect::kNone)
                            : std::nullopt;
}

gateway::GatewayOptions FrontOptions(const ServeFlags& flags, const Served& served,
                                     gateway::KeyRing keys, std::string kv_event_sources) {
  return {.served_names = served.names,
          .maybe_card = served.driver->maybe_card(),
          .keys = std::move(keys),
          .trust_request_chat_template = flags.trust_request_chat_template,
          .tool_dialect = ToolDialectOf(flags.tool_call_parser),
          .cors_origin = flags.allowed_origin,
          .request_timeout_ms = RequestTimeoutMs(flags),
          .kv_event_sources = std::move(kv_event_sources),
          .maybe_fleet = served.maybe_fleet,
          .maybe_membership = served.membership.get()};
}

Status StartLogAs(const ServeFlags& flags) {
  LogOptions log;
  TRY_ASSIGN(log.level, ParseLogLevel(flags.log_level));
  log.json = flags.log_format == "json";
  log.file = flags.log_file;
  log.async = true;
  return StartLog(log);
}

void Reread(const ServeFlags& flags, Served& served) {
  RereadFleetFile(flags.fleet_file, flags.upstream, {AddressOf(flags), served.port->load()},
                  *served.maybe_fleet, *served.membership, *served.discoveries);
}

DriverMakerOptions MakerOptions(const ServeFlags& flags) {
  return {.engine = flags.engine,
          .served_names = flags.served_model_names,
          .ca_file = flags.upstream.ca_file,
          .scrape_interval_s = flags.upstream.metrics_scrape_interval_s,
          .generation_probe_interval_s = flags.upstream.generation_probe_interval_s,
          .generation_probe_timeout_s = flags.upstream.generation_probe_timeout_s};
}

Status Serve(ServeFlags flags, const Program& program) {
  TRY(CheckUpstreams(flags.upstream));  // before an error quotes one: it may hold a secret
  TRY(CleanNames(flags));
  TRY(RefuseTypedModel(flags));
  TRY_ASSIGN(NamedReplicas named, NameReplicas(flags.upstream, flags.engine.model,
                                               flags.model_was_typed, program.maybe_file));
  flags.replicas = std::move(named.specs);
  flags.discoveries = std::move(named.discoveries);
  if (named.from_file && !flags.native()) {
    flags.fleet_file = program.file_path;
  }
  TRY(RefuseNativeFlags(flags));
  TRY(RefuseUpstreamFlags(flags));
  TRY_ASSIGN(gateway::KeyRing keys, MakeKeys(flags));
  TRY_ASSIGN(const net::HttpServerOptions options, ServerOptions(flags));
  TRY(RefuseOwnAddress(flags.replicas, {options.address, options.port}));
  // Until here a signal ends the program at once, even while it reads a file that is a pipe.
  Latch first_signal;
  Latch second_signal;
  std::atomic<bool> stop{false};
  const bool stays = IgnoresHangUp();
  FileWatcher fleet_file(flags.fleet_file);
  const SignalWatcher watcher({SIGTERM, SIGINT, SIGHUP}, [&](int number) {
    if (number == SIGHUP && !flags.fleet_file.empty()) {
      fleet_file.Ask();
    } else if (number != SIGHUP || !stays) {
      (stop.exchange(true) ? second_signal : first_signal).Set();
    }
  });
  TRY(StartLogAs(flags));
  net::EventLoop loop;
  loop.Start("gateway");
  TRY(TryListening(loop, options));

  TRY_ASSIGN(std::vector<metrics::Slo> slos, ReadSlos(flags));
  metrics::Registry metrics(std::move(slos));
  DriverMaker maker(MakerOptions(flags), metrics, loop, stop);
  std::string kv_event_sources;
  std::unique_ptr<gateway::KvEventPublisher> kv_events;  // the driver calls it, so it goes later
  TRY_ASSIGN(Served served, flags.native() ? MakeNative(flags, maker)
                                           : MakeRidden(flags, program.maybe_file, metrics, maker));
  TRY_ASSIGN(kv_events, PublishKvEvents(flags, *served.driver, kv_event_sources));
  TRY(served.driver->Start());
  gateway::Gateway front(FrontOptions(flags, served, std::move(keys), std::move(kv_event_sources)),
                         *served.driver, metrics, served.emitter, Clock::Real(),
                         RandomSource::Real());
  TRY_ASSIGN(const std::unique_ptr<net::HttpServer> server, Listen(loop, options, front));
  served.port->store(server->port());
  if (!stop.load()) {
    PrintReady(flags, *server, served);
  }
  if (!flags.fleet_file.empty()) {
    served.discoveries->Set(flags.discoveries);
    fleet_file.Start([&] { Reread(flags, served); });
  }
  first_signal.Wait();
  ShutDown(flags, front, *served.driver, *server, second_signal);
  // Only now: they may wait for a name server that doesn't answer.
  fleet_file.Stop();
  served.discoveries.reset();
  served.driver->Stop();
  loop.Stop();
  StopLog();
  return {};
}

void AddToolCallParser(CLI::App& verb, ServeFlags& flags) {
  flags.native_options.push_back(
      verb.add_option("--tool-call-parser", flags.tool_call_parser,
                      "How the model writes tool calls: hermes, none (they stay text), or auto, as "
                      "its chat template shows them")
          ->check(CLI::IsMember({"auto", "hermes", "none"}))
          ->capture_default_str());
}

void AddFlags(CLI::App& verb, ServeFlags& flags) {
  AddModel(verb, flags.engine.model);
  const size_t before_native = verb.get_options().size();
  flags.engine.AddChatTemplate(verb);
  flags.engine.AddSequences(verb);
  flags.engine.AddStepRows(verb);
  flags.engine.AddScheduling(verb);
  flags.engine.AddMemory(verb);
  flags.engine.AddMachine(verb);
  for (size_t i = before_native; i < verb.get_options().size(); ++i) {
    flags.native_options.push_back(verb.get_options()[i]);
  }
  verb.add_option("--host", flags.host, "Address to listen on")->capture_default_str();
  verb.add_option("--port", flags.port, "Port; 0: any free one")
      ->check(WholeWithin({.least = 0, .most = 65'535}))
      ->capture_default_str();
  const size_t before_upstream = verb.get_options().size();
  AddUpstreamFlags(verb, flags.upstream);
  for (size_t i = before_upstream; i < verb.get_options().size(); ++i) {
    flags.upstream_options.push_back(verb.get_options()[i]);
  }
  verb.add_option(
          "--served-model-name", flags.served_model_names,
          "Name of the model in requests; repeatable. In front of upstreams: of a model that "
          "one lists, or any name where they list one model")
      ->allow_extra_args(false);
  verb.add_option("--api-key", flags.api_keys, "Key that clients must send; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--keys-file", flags.keys_file,
                  "TOML file of tenants and hashes of their keys, as shown below");
  verb.add_flag("--allow-unauthenticated", flags.allow_unauthenticated,
                "Listen on a public address without keys");
  flags.native_options.push_back(verb.add_flag("--trust-request-chat-template",
                                               flags.trust_request_chat_template,
                                               "Take chat_template from requests"));
  AddToolCallParser(verb, flags);
  AddAllowedOrigin(verb, flags.allowed_origin);
  verb.add_option("--slo", flags.slos,
                  "Objective to count requests against: NAME=ttft:MS,tpot:MS,e2e:MS; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--ssl-certfile", flags.ssl_certfile, "PEM certificate chain: serve TLS");
  verb.add_option("--ssl-keyfile", flags.ssl_keyfile, "PEM key of the certificate");
  verb.add_option("--kv-events-config", flags.kv_events_config,
                  "Publish KV events over ZeroMQ: JSON with vLLM's keys");
  flags.native_options.push_back(
      verb.add_flag("--allow-public-kv-events", flags.allow_public_kv_events,
                    "Publish them, token ids in clear, where others than this machine can read"));
  verb.add_option("--log-level", flags.log_level, "debug, info, warning, error, off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  verb.add_option("--log-format", flags.log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  verb.add_option("--log-file", flags.log_file, "Append to this file instead of stderr");
  verb.add_option("--request-timeout", flags.request_timeout_s,
                  "Seconds that a request may take, waiting included (default: no bound)")
      ->check(Within({.least = 0, .most = 1e6}));
  verb.add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                  "Seconds that open requests get after SIGTERM")
      ->check(WholeWithin({.least = 0, .most = 86'400}))
      ->capture_default_str();
  verb.add_option("--shutdown-settle", flags.shutdown_settle_ms,
                  "Milliseconds between not ready and not accepting")
      ->check(WholeWithin({.least = 0, .most = 86'400'000}))
      ->capture_default_str();
}

}  // namespace

std::function<ExitStatus()> AddServe(Program& program) {
  CLI::App* verb =
      program.app.add_subcommand("serve", "Serve a model, or an upstream, over the OpenAI API");
  const auto flags = std::make_shared<ServeFlags>();
  AddFlags(*verb, *flags);
  verb->footer(kServeFooter);
  verb->parse_complete_callback([verb, flags] {
    flags->model_was_typed = verb->get_option("--model")->count() > 0;
    const auto given = [](const CLI::Option* option) { return option->count() > 0; };
    std::copy_if(flags->native_options.begin(), flags->native_options.end(),
                 std::back_inserter(flags->typed_native_options), given);
    std::copy_if(flags->upstream_options.begin(), flags->upstream_options.end(),
                 std::back_inserter(flags->typed_upstream_options), given);
  });
  return [flags, &program]() -> ExitStatus {
    const Status served = Serve(*flags, program);
    return served ? 0 : PrintError(served.error());
  };
}

}  // namespace fak::cli

#include "ride/upstream_driver.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/random.h"
#include "ride/json_reads.h"
#include "ride/relay.h"
#include "ride/upstream_error.h"
#include "ride/upstream_request.h"

namespace fak::ride {
namespace {

bool Contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

driver::Capabilities CapabilitiesOf(const Adapter& adapter) {
  driver::Capabilities out;
  out.engine = adapter.engine;
  out.tool_calls = adapter.tool_calls;
  out.reasoning = adapter.reasoning;
  out.grammars = adapter.grammars;
  out.images = adapter.images;
  out.token_ids = adapter.token_ids;
  out.continues_exactly = adapter.continues_exactly;
  out.cancel_stops_engine = adapter.cancel_stops_engine;
  out.honours_cache_salt = adapter.honours_cache_salt;
  out.honours_priority = adapter.honours_priority;
  out.embeddings = FindRoute(adapter, wire::Surface::kEmbedding) != nullptr;
  out.anthropic_wire = FindRoute(adapter, wire::Surface::kMessages) != nullptr;
  out.responses_wire = FindRoute(adapter, wire::Surface::kResponses) != nullptr;
  out.generate_wire = FindRoute(adapter, wire::Surface::kGenerate) != nullptr;
  out.template_wire = FindRoute(adapter, wire::Surface::kTemplate) != nullptr;
  return out;
}

std::optional<Signal> SignalOf(wire::Surface surface) {
  switch (surface) {
    case wire::Surface::kMessages:
    case wire::Surface::kCountTokens: return Signal::kMessages;
    case wire::Surface::kResponses: return Signal::kResponses;
    case wire::Surface::kEmbedding: return Signal::kEmbeddings;
    case wire::Surface::kTemplate: return Signal::kTemplate;
    default: return std::nullopt;
  }
}

// Null when such requests can go there.
std::optional<Error> CheckServed(const Adapter& adapter, const Endpoint* maybe_endpoint,
                                 const wire::Turn& turn) {
  const wire::Surface surface = turn.surface;
  if (turn.answer_so_far) {
    return Error{Code::kUnsupported,
                 "continue_answer is taken by the server of the model, and not in front of it",
                 "continue_answer"};
  }
  if (FindRoute(adapter, surface) == nullptr) {
    return Error{Code::kUnsupported,
                 "an upstream of the kind " + std::string(adapter.engine) + " has no such surface"};
  }
  const std::optional<Signal> signal = SignalOf(surface);
  if (!signal || maybe_endpoint == nullptr) {
    return std::nullopt;
  }
  for (const Endpoint::Finding& finding : maybe_endpoint->findings) {
    if (finding.signal == *signal && !finding.has) {
      return Error{Code::kUnsupported,
                   "the upstream doesn't serve this: " + finding.asked + " gave " + finding.seen};
    }
  }
  return std::nullopt;
}

}  // namespace

Status UpstreamDriver::Check(const driver::ReplicaSpec& spec) {
  TRY(UpstreamTarget::Parse(spec.url, spec.api_key));
  TRY_ASSIGN(const SpecOptions said, ReadSpecOptions(spec));
  const Adapter* maybe_adapter = FindAdapter(spec.engine);
  if (maybe_adapter == nullptr && !spec.engine.empty() && spec.engine != "auto") {
    return Fail(Code::kInvalidArgument,
                "no engine " + spec.engine + ": there are auto, " + AdapterNames(), "engine");
  }
  TRY(CheckMetricsUrls(spec));
  if (said.policy.rank && (maybe_adapter == nullptr || maybe_adapter->rank_header.empty())) {
    return Fail(Code::kInvalidArgument,
                maybe_adapter == nullptr
                    ? "a data-parallel rank is for an engine that takes one: say which it is, as "
                      "in vllm+" +
                          spec.url
                    : "an upstream of the kind " + spec.engine + " takes no data-parallel rank",
                "data_parallel_rank");
  }
  if (!said.kv_events.empty() && maybe_adapter != nullptr && !maybe_adapter->publishes_kv_events) {
    return Fail(Code::kInvalidArgument,
                "an upstream of the kind " + spec.engine + " publishes no KV events", "kv_events");
  }
  return {};
}

Result<std::unique_ptr<UpstreamDriver>> UpstreamDriver::Make(const driver::ReplicaSpec& spec,
                                                             UpstreamOptions options) {
  TRY(Check(spec));
  TRY_ASSIGN(UpstreamTarget target, UpstreamTarget::Parse(spec.url, spec.api_key));
  TRY_ASSIGN(SpecOptions said, ReadSpecOptions(spec));
  const Adapter* maybe_adapter = FindAdapter(spec.engine);
  target.timeouts = options.timeouts;
  target.call_ms = options.call_ms;
  std::vector<KvEventEndpoint> kv_events = std::move(said.kv_events);
  std::unique_ptr<UpstreamDriver> made(new UpstreamDriver(spec, std::move(target), std::move(said),
                                                          maybe_adapter, std::move(options)));
  if (!kv_events.empty()) {
    TRY_ASSIGN(made->kv_events_,
               UpstreamKvEvents::Make(std::move(kv_events),
                                      [driver = made.get()](const KvEventCounts& counts) {
                                        if (driver->meter_) {
                                          driver->meter_->CountKvEvents(counts);
                                        }
                                      }));
  }
  TRY_ASSIGN(net::ProxyRules proxies, net::ProxyRules::FromEnvironment());
  TRY_ASSIGN(made->client_,
             net::HttpClient::Make(made->request_loop_,
                                   {.connections_per_origin_max = made->options_.connections_max,
                                    .tls = made->options_.tls,
                                    .tls_at_once = made->target_.origin.tls,
                                    .proxies = proxies}));
  TRY_ASSIGN(made->calls_client_,
             net::HttpClient::Make(made->loop_,
                                   {.connections_per_origin_max = limits::kProbeConnectionsMax,
                                    .idle_per_origin_max = limits::kProbeConnectionsMax,
                                    .tls = made->options_.tls,
                                    .proxies = std::move(proxies)}));
  return made;
}

UpstreamDriver::UpstreamDriver(driver::ReplicaSpec spec, UpstreamTarget target, SpecOptions said,
                               const Adapter* maybe_adapter, UpstreamOptions options)
    : spec_(std::move(spec)),
      target_(std::move(target)),
      policy_(std::move(said.policy)),
      maybe_adapter_(maybe_adapter),
      options_(std::move(options)),
      generation_probe_every_s_(said.generation_probe_every_s),
      generation_probe_timeout_ms_(said.generation_probe_timeout_s
                                       ? *said.generation_probe_timeout_s * 1000
                                       : options_.generation_probe_timeout_ms),
      request_loop_(options_.maybe_request_loop != nullptr ? *options_.maybe_request_loop : loop_),
      why_down_("upstream " + spec_.name + ": not probed yet") {
  driver::Capabilities capabilities;
  if (maybe_adapter_ != nullptr) {
    capabilities = CapabilitiesOf(*maybe_adapter_);
  }
  capabilities_ = std::make_shared<const driver::Capabilities>(std::move(capabilities));
  if (options_.maybe_metrics != nullptr) {
    meter_.emplace(*options_.maybe_metrics,
                   UpstreamMeterOptions{.worker = spec_.name,
                                        .engine = spec_.engine.empty() ? "auto" : spec_.engine,
                                        .model = spec_.model,
                                        .scrape_every_ms = options_.scrape_every_ms});
  }
}

UpstreamDriver::~UpstreamDriver() {
  Stop();
}

std::shared_ptr<const driver::Capabilities> UpstreamDriver::capabilities() const {
  const std::lock_guard lock(mutex_);
  return capabilities_;
}

std::shared_ptr<const Endpoint> UpstreamDriver::endpoint() const {
  const std::lock_guard lock(mutex_);
  return maybe_endpoint_;
}

const Adapter* UpstreamDriver::adapter() const {
  const std::lock_guard lock(mutex_);
  return maybe_endpoint_ != nullptr ? maybe_endpoint_->adapter : maybe_adapter_;
}

Result<std::shared_ptr<const Endpoint>> UpstreamDriver::WaitForProbe(int wait_ms) const {
  std::unique_lock lock(mutex_);
  probed_.wait_for(lock, std::chrono::milliseconds(wait_ms), [this] { return probe_ended_; });
  if (!probe_ended_ || maybe_endpoint_ == nullptr) {
    return Fail(probe_ended_ ? Code::kUnavailable : Code::kDeadlineExceeded, why_down_);
  }
  return maybe_endpoint_;
}

driver::LoadReport UpstreamDriver::Load() const {
  driver::LoadReport report;
  report.in_flight = running_.load();
  report.running = report.in_flight;
  if (meter_) {
    meter_->Fill(report);
  }
  const std::lock_guard lock(mutex_);
  report.ready = up_ && started_ && !draining_.load();
  report.why_not = report.ready ? "" : draining_.load() ? "draining" : why_down_;
  return report;
}

std::vector<driver::WorkerLoad> UpstreamDriver::WorkerLoads() const {
  return {{spec_.name, capabilities()->engine, Load()}};
}

Status UpstreamDriver::Start() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(started_, true)) {
      return {};
    }
  }
  if (kv_events_ != nullptr) {
    kv_events_->Start();
  }
  loop_.Start("upstream");
  loop_.Post([this] {
    probe_timer_ = std::make_unique<net::Timer>(loop_.timers(), [this] { StartProbe(); });
    StartProbe();
  });
  return {};
}

// All of it while nothing is known or it was away; whether it would answer otherwise.
void UpstreamDriver::StartProbe() {
  if (IsUp()) {
    CheckHealth();
    return;
  }
  prober_ =
      std::make_unique<Prober>(*calls_client_, target_, maybe_adapter_,
                               [this](Result<Endpoint> found) { OnProbed(std::move(found)); });
}

void UpstreamDriver::OnProbed(Result<Endpoint> found) {
  if (!found || !found->why_no_models.empty()) {
    SetDown(found ? found->why_no_models : found.error().detail);
    return;
  }
  driver::Capabilities capabilities = CapabilitiesOf(*found->adapter);
  capabilities.version = found->version;
  capabilities.artifact = found->artifact;
  capabilities.context_length = found->context_length;
  capabilities.anthropic_wire = found->Has(Signal::kMessages);
  capabilities.responses_wire = found->Has(Signal::kResponses);
  capabilities.embeddings = found->Has(Signal::kEmbeddings);
  capabilities.template_wire = found->Has(Signal::kTemplate);
  const Adapter& engine = *found->adapter;
  {
    const std::lock_guard lock(mutex_);
    UpdateModels(found->models, std::move(capabilities));
    maybe_endpoint_ = std::make_shared<const Endpoint>(*std::move(found));
  }
  StartScraping(engine);
  CheckHealth();
}

void UpstreamDriver::CheckHealth() {
  const Adapter& engine = *adapter();
  std::vector<Call> calls = {{"GET", std::string(engine.health_path)}};
  if (engine.sleeps != nullptr && endpoint()->Has(Signal::kCacheReset)) {
    calls.push_back({"GET", std::string(engine.sleep_path)});
  }
  Ask(engine, std::move(calls), [this](Result<Replies> replies) {
    if (replies) {
      OnHealth(*replies);
    }
  });
}

void UpstreamDriver::OnHealth(const Replies& replies) {
  const Adapter& engine = *adapter();
  const std::string asked = "GET " + std::string(engine.health_path);
  const Reply& reply = replies.At(asked);
  if (reply.unsent && IsUp()) {
    probe_timer_->ArmMs(probe_every_ms());
    return;
  }
  if (reply.status != 200) {
    SetDown(reply.status == 0 ? reply.body : AnsweredInWords(asked, reply.status, key()));
    return;
  }
  if (engine.ready != nullptr && !engine.ready(reply)) {
    SetDown(asked + " says that nobody is there to answer");
    return;
  }
  if (engine.sleeps != nullptr &&
      engine.sleeps(replies.At("GET " + std::string(engine.sleep_path)))) {
    SetDown("GET " + std::string(engine.sleep_path) + " says that it was put to sleep");
    return;
  }
  std::vector<std::string> models;
  for (const Json& model : ArrayAt(reply.document, "data")) {
    models.push_back(StringAt(model, "id"));
  }
  {
    const std::lock_guard lock(mutex_);
    if (!models.empty() && models != listed_) {
      UpdateModels(std::move(models), *capabilities_);
    }
    if (!up_ && probe_ended_) {
      Log(LogLevel::kInfo, "upstream {} is back", spec_.name);
    }
    up_ = true;
    probe_ended_ = true;
    if (meter_) {
      meter_->SetModels(capabilities_->models);
      meter_->SetUp(true);
    }
  }
  probed_.notify_all();
  probe_timer_->ArmMs(probe_every_ms());
}

void UpstreamDriver::SetDown(std::string why) {
  Error named = Named({Code::kUnavailable, std::move(why)});
  {
    const std::lock_guard lock(mutex_);
    NoteDown(std::move(named.detail));
    probe_ended_ = true;
  }
  probed_.notify_all();
  probe_timer_->ArmMs(probe_every_ms());
}

void UpstreamDriver::OnUnreachable(std::string why) {
  const std::lock_guard lock(mutex_);
  if (up_) {
    NoteDown(std::move(why));
  }
}

void UpstreamDriver::NoteDown(std::string why) {
  if (up_ || why_down_ != why) {
    Log(LogLevel::kWarning, "{} ({})", why, spec_.url);
  }
  up_ = false;
  why_down_ = std::move(why);
  if (meter_) {
    meter_->SetUp(false);
  }
}

int UpstreamDriver::probe_every_ms() const {
  if (options_.probe_every_ms > 0) {
    return options_.probe_every_ms;
  }
  const Adapter* engine = adapter();
  return engine == nullptr ? kOpenAi.probe_every_ms : engine->probe_every_ms;
}

void UpstreamDriver::StandFor(std::vector<std::string> names, std::string model) {
  const std::lock_guard lock(mutex_);
  own_names_ = std::move(names);
  own_names_model_ = std::move(model);
  UpdateModels(listed_, *capabilities_);
}

void UpstreamDriver::UpdateModels(std::vector<std::string> listed,
                                  driver::Capabilities capabilities) {
  listed_ = std::move(listed);
  capabilities.models = listed_;
  if (!OwnNamesModel().empty()) {
    std::copy_if(own_names_.begin(), own_names_.end(), std::back_inserter(capabilities.models),
                 [this](const std::string& name) { return !Contains(listed_, name); });
  }
  capabilities_ = std::make_shared<const driver::Capabilities>(std::move(capabilities));
}

std::string UpstreamDriver::OwnNamesModel() const {
  if (own_names_model_.empty()) {
    return listed_.size() == 1 ? listed_.front() : "";
  }
  return Contains(listed_, own_names_model_) ? own_names_model_ : "";
}

bool UpstreamDriver::MayServe(const std::string& model) const {
  if (model.empty() || !policy_.model.empty()) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  const std::vector<std::string>& models = capabilities_->models;
  return models.empty() || Contains(models, model);
}

std::string UpstreamDriver::NameThere(const std::string& model) const {
  if (model.empty() || !policy_.model.empty()) {
    return model.empty() ? model : policy_.model;
  }
  const std::lock_guard lock(mutex_);
  std::string meant = OwnNamesModel();
  const bool own = !meant.empty() && Contains(own_names_, model) && !Contains(listed_, model);
  return own ? meant : model;
}

std::string UpstreamDriver::ModelToAskFor(const Adapter& engine,
                                          const driver::Prepared& prepared) const {
  const std::string& asked = driver::ModelOf(prepared);
  if (!policy_.model.empty() || !engine.default_model.empty() || asked.empty()) {
    return policy_.model;
  }
  std::string there = NameThere(asked);
  const bool as_it_came =
      prepared.document != nullptr && StringAt(*prepared.document, "model") == there;
  return as_it_came ? "" : there;
}

Error UpstreamDriver::Named(Error error) const {
  const std::string address = target_.origin.ToString();
  const std::string name = "upstream " + spec_.name + ": ";
  if (error.detail.starts_with(address)) {
    const size_t rest = error.detail.find_first_not_of(": ", address.size());
    error.detail.erase(0, std::min(rest, error.detail.size()));
  }
  if (!error.detail.starts_with(name)) {
    error.detail.insert(0, name);
  }
  return WithoutKey(std::move(error), key());
}

Status UpstreamDriver::Admit(std::shared_ptr<const driver::Prepared> prepared,
                             std::shared_ptr<driver::EventSink> sink) {
  sink->OnPlaced({.worker = spec_.name});
  if (draining_.load()) {
    return Fail(Code::kUnavailable, "the server is shutting down");
  }
  std::shared_ptr<const Endpoint> maybe_endpoint;
  const Adapter* engine = maybe_adapter_;
  {
    const std::lock_guard lock(mutex_);
    if (!started_) {
      return Fail(Code::kUnavailable, "the upstream driver was not started");
    }
    maybe_endpoint = maybe_endpoint_;
    if (maybe_endpoint != nullptr) {
      engine = maybe_endpoint->adapter;
    }
    if (engine == nullptr) {
      Error error{Code::kUnavailable, "what runs there isn't known yet: " + why_down_};
      error.retry_after_s = 1;
      return Fail(std::move(error));
    }
  }
  const wire::Turn& turn = *prepared->turn;
  if (auto refused = CheckServed(*engine, maybe_endpoint.get(), turn)) {
    return Fail(*std::move(refused));
  }
  const std::string upstream_id =
      engine->id_field.empty() ? std::string() : RandomId(RandomSource::Real(), "fak-");
  UpstreamPolicy policy = policy_;
  policy.model = ModelToAskFor(*engine, *prepared);
  EditedRequest edited = EditRequest(*engine, policy, *prepared, upstream_id);
  net::HttpClientRequest request =
      target_.Request(*engine, {"POST", std::string(FindRoute(*engine, turn.surface)->path), ""});
  for (auto& [name, value] : EditHeaders(*engine, policy_, *prepared)) {
    request.headers.Set(name, value);
  }
  request.body = std::move(edited.body);
  request.keep_connection = !(turn.stream && engine->closes_after_stream);
  const bool generates = turn.surface != wire::Surface::kEmbedding &&
                         turn.surface != wire::Surface::kCountTokens &&
                         turn.surface != wire::Surface::kTemplate;
  if (meter_ && generates) {
    sink = meter_->Measure(*prepared, std::move(sink));
  }
  auto open = std::make_shared<UpstreamRequest>(
      *this, request_loop_, *engine, prepared->request_id, upstream_id,
      std::make_unique<Relay>(std::move(sink),
                              Relay::Options{.surface = turn.surface,
                                             .streamed = turn.stream,
                                             .withhold_usage = edited.withhold_usage,
                                             .choices = static_cast<size_t>(turn.n) *
                                                        std::max<size_t>(1, turn.prompts.size()),
                                             .edits = ChunkEdits(*engine, *prepared),
                                             .key = key()}),
      UpstreamRequest::Bounds{.tail_ms = options_.tail_ms, .choice_ms = target_.timeouts.idle_ms});
  running_.fetch_add(1);
  const bool posted =
      PostRequest([this, prepared, open = std::move(open), request = std::move(request)]() mutable {
        Open(*prepared, std::move(open), std::move(request));
      });
  if (!posted) {
    running_.fetch_sub(1);
    return Fail(Code::kUnavailable, "the server is shutting down");
  }
  return {};
}

bool UpstreamDriver::CanContinue(const driver::Prepared& prepared) const {
  const Adapter* engine = adapter();
  return engine != nullptr && engine->continues != nullptr && engine->continues(prepared);
}

void UpstreamDriver::Open(const driver::Prepared& prepared, std::shared_ptr<UpstreamRequest> open,
                          net::HttpClientRequest request) {
  const std::string& id = prepared.request_id;
  if (!open_.emplace(id, open).second) {
    running_.fetch_sub(1);
    open->Abort({Code::kAlreadyExists, "request id " + id + " is in use already"});
    return;
  }
  open->ArmDeadline(prepared);
  open->SetHandle(client_->Send(std::move(request), UpstreamRequest::MakeSink(open)));
}

bool UpstreamDriver::PostRequest(UniqueFunction<void()> task) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) {
    request_loop_.Post(std::move(task));
  }
  return !stopped_;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the id may belong to what goes
void UpstreamDriver::Forget(std::string request_id) {
  if (open_.erase(request_id) == 0) {
    return;
  }
  running_.fetch_sub(1);
  if (open_.empty()) {
    for (const std::function<void()>& done : std::exchange(drained_, {})) {
      done();
    }
  }
}

void UpstreamDriver::TellAbort(const Adapter& engine, const std::string& id) {
  if (engine.abort == nullptr) {
    return;
  }
  if (std::optional<Call> call = engine.abort(id)) {
    loop_.Post([this, &engine, call = *std::move(call)] {
      if (calls_client_ != nullptr) {
        Ask(engine, {call}, [](const Result<Replies>&) {});
      }
    });
  }
}

void UpstreamDriver::AskAt(const UpstreamTarget& target, const Adapter& engine,
                           std::vector<Call> calls, Answered done,
                           std::function<bool(const Call&, const Reply&)> stop_when) {
  const uint64_t id = ++chore_ids_;
  Chore& chore = chores_[id];
  chore.done = std::move(done);
  chore.calls = std::make_unique<CallSequence>(
      *calls_client_, target, engine, std::move(calls),
      [this, id](Replies replies) {
        const auto ended = chores_.extract(id);
        ended.mapped().done(std::move(replies));
      },
      std::move(stop_when));
}

void UpstreamDriver::Cancel(std::string_view request_id) {
  PostRequest([this, id = std::string(request_id)] { End(id, {Code::kCancelled, "cancelled"}); });
}

void UpstreamDriver::End(std::string request_id, Error error) {
  if (const auto found = open_.find(request_id); found != open_.end()) {
    const std::shared_ptr<UpstreamRequest> request = found->second;
    request->Abort(std::move(error));
    Forget(std::move(request_id));
  }
}

void UpstreamDriver::Drain(std::function<void()> done) {
  draining_.store(true);
  const bool posted = PostRequest([this, done] {
    if (open_.empty()) {
      done();
    } else {
      drained_.push_back(done);
    }
  });
  if (!posted) {
    done();
  }
}

void UpstreamDriver::Stop() {
  draining_.store(true);
  if (kv_events_ != nullptr) {
    kv_events_->Stop();
  }
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  // What was posted before runs before this.
  request_loop_.Invoke([this] {
    for (auto& [id, request] : std::exchange(open_, {})) {
      request->Abort({Code::kUnavailable, "the server is shutting down"});
    }
    client_.reset();
  });
  loop_.Invoke([this] {
    probe_timer_.reset();
    prober_.reset();
    for (auto& [id, chore] : std::exchange(chores_, {})) {
      chore.calls.reset();
      chore.done(Fail(Code::kUnavailable, "the server is shutting down"));
    }
    if (meter_) {
      meter_->StopScraping();
    }
    calls_client_.reset();
  });
  loop_.Stop();
}

}  // namespace fak::ride

#include "fleet/fleet_replica.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "fleet/failure.h"

namespace fak::fleet {
namespace {

constexpr int64_t kEjectMs = 10'000;
constexpr int64_t kEjectMsMax = 120'000;
constexpr int64_t kTypicalOfMs = 30'000;
constexpr size_t kTypicalLeast = 10;

double Seconds(int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

// Beside what asks to be left alone: a lack, mostly of ours (descriptors, connections), which says
// itself what of.
std::string WhyPassedOver(const Error* maybe_error) {
  return maybe_error != nullptr && maybe_error->code == Code::kResourceExhausted
             ? "passed over for a while: " + maybe_error->detail
             : "it asked to be left alone for a while";
}

}  // namespace

FleetReplica::FleetReplica(ReplicaId id, ReplicaOptions options,
                           std::unique_ptr<driver::EngineDriver> driver,
                           ReplicaHealth::Options health)
    : id_(id),
      name_(std::move(options.name)),
      driver_(std::move(driver)),
      weight_(options.weight),
      max_concurrency_(options.max_concurrency),
      models_(std::move(options.models)),
      health_(health),
      eject_ms_(kEjectMs) {
  health_.SetDraining(options.draining);
}

void FleetReplica::HearKvEvents(ResidencyIndex& index) {
  feed_ = std::make_unique<ResidencyFeed>(index, id_);
  if (driver::KvEventSource* source = driver_->maybe_kv_events()) {
    source->Subscribe(
        [feed = feed_.get()](const wire::KvEventBatch& batch) { feed->OnBatch(batch); });
  }
}

std::vector<std::string> FleetReplica::models() const {
  {
    const std::lock_guard lock(mutex_);
    if (!models_.empty()) {
      return models_;
    }
  }
  return driver_->capabilities()->models;
}

void FleetReplica::SetModels(std::vector<std::string> models) {
  const std::lock_guard lock(mutex_);
  models_ = std::move(models);
}

bool FleetReplica::ListsModel(const std::string& model) const {
  const auto has = [&model](const std::vector<std::string>& models) {
    return std::find(models.begin(), models.end(), model) != models.end();
  };
  if (model.empty()) {
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!models_.empty()) {
      return has(models_);
    }
  }
  return has(driver_->capabilities()->models);
}

bool FleetReplica::ServesSurface(wire::Surface surface) const {
  const auto capabilities = driver_->capabilities();
  switch (surface) {
    case wire::Surface::kMessages:
    case wire::Surface::kCountTokens: return capabilities->anthropic_wire;
    case wire::Surface::kResponses: return capabilities->responses_wire;
    case wire::Surface::kEmbedding: return capabilities->embeddings;
    case wire::Surface::kGenerate: return capabilities->generate_wire;
    case wire::Surface::kTemplate: return capabilities->template_wire;
    case wire::Surface::kChat:
    case wire::Surface::kCompletion: return true;
  }
  return false;
}

FleetReplica::Seen FleetReplica::Look(int64_t now_ns) {
  const driver::LoadReport load = driver_->Load();
  const std::lock_guard lock(mutex_);
  estimate_.Report(load.backlog_tokens.value_or(0),
                   load.running.value_or(0) + load.waiting.value_or(0));
  health_.Observe(now_ns, load.ready, load.why_not);
  return {health_.TierAt(now_ns), health_.StateAt(now_ns),
          estimate_.backlog_tokens(now_ns / kNsPerUs)};
}

void FleetReplica::SetShare(double weight, int32_t max_concurrency) {
  weight_.store(weight);
  max_concurrency_.store(max_concurrency);
}

bool FleetReplica::HasRoom() const {
  const int32_t most = max_concurrency_.load();
  return most <= 0 || in_flight_.load() < most;
}

BreakerTicket FleetReplica::Begin(int64_t now_ns, int64_t uncached_tokens) {
  in_flight_.fetch_add(1);
  const std::lock_guard lock(mutex_);
  estimate_.Place(now_ns / kNsPerUs, uncached_tokens);
  ++attempts_;
  return health_.Begin(now_ns);
}

void FleetReplica::ReleaseBacklog(int64_t now_ns, int64_t uncached_tokens) {
  const std::lock_guard lock(mutex_);
  estimate_.Prefilled(now_ns / kNsPerUs, uncached_tokens);
}

void FleetReplica::TakeFirst(const BreakerTicket& ticket, int64_t now_ns, bool streamed) {
  const std::lock_guard lock(mutex_);
  health_.End(ticket, Verdict::kAnswered, now_ns);
  if (streamed) {
    first_tokens_.Record(now_ns, now_ns - ticket.began_ns);
  }
}

void FleetReplica::End(const BreakerTicket& ticket, Verdict verdict, int64_t now_ns,
                       const Error* maybe_error) {
  in_flight_.fetch_sub(1);
  const std::lock_guard lock(mutex_);
  estimate_.End();
  health_.End(ticket, verdict, now_ns, maybe_error == nullptr ? "" : maybe_error->detail);
  if (verdict == Verdict::kBusy) {
    health_.PassOver(now_ns, maybe_error == nullptr ? 0 : maybe_error->retry_after_s,
                     WhyPassedOver(maybe_error));
  }
  failures_ += verdict == Verdict::kFailed ? 1 : 0;
}

std::optional<FleetReplica::Generation> FleetReplica::BeginGeneration(
    int64_t now_ns, const driver::GenerationProbing& wanted) {
  const std::lock_guard lock(mutex_);
  const int64_t open = in_flight_.load();
  health_.SetTriedByUs(generations_.TakesTrials(wanted, open));
  if (!health_.ready() || health_.draining()) {
    return std::nullopt;
  }
  const int64_t waiting = estimate_.waiting();
  const auto extra_ms = generations_.DueAt(wanted, {.now_ns = now_ns,
                                                    .proof_ns = health_.ProofNs(),
                                                    .breaker = health_.BreakerAt(now_ns),
                                                    .on_trial = health_.OnTrialAt(now_ns),
                                                    .waiting = waiting,
                                                    .streaming = open - waiting,
                                                    .backlog_tokens = estimate_.prompt_tokens(),
                                                    .tokens_per_s = estimate_.tokens_per_s()});
  if (!extra_ms) {
    return std::nullopt;
  }
  generations_.Begin();
  return Generation{health_.Begin(now_ns), *extra_ms};
}

void FleetReplica::EndGeneration(const BreakerTicket& ticket, int64_t now_ns,
                                 const Status& answered) {
  const FailureReading reading =
      answered ? FailureReading{Verdict::kAnswered} : ReadFailure(answered.error(), {});
  const std::string why = answered ? "" : answered.error().detail;
  const std::lock_guard lock(mutex_);
  generations_.End(now_ns, reading.verdict);
  health_.End(ticket, reading.verdict, now_ns, why);
  if (reading.verdict == Verdict::kFailed) {
    health_.SetMute(why);
  } else if (reading.verdict == Verdict::kBusy) {
    health_.PassOver(now_ns, answered.error().retry_after_s, WhyPassedOver(&answered.error()));
  }
}

void FleetReplica::TakeUsage(const wire::Usage& usage) {
  constexpr double kKept = 0.98;  // of what was before: about the last 50 requests
  if (usage.cached_tokens < 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  prompt_tokens_ = prompt_tokens_ * kKept + usage.prompt_tokens;
  cached_tokens_ = cached_tokens_ * kKept + usage.cached_tokens;
}

void FleetReplica::SetDraining(bool draining) {
  const std::lock_guard lock(mutex_);
  health_.SetDraining(draining);
}

bool FleetReplica::draining() const {
  const std::lock_guard lock(mutex_);
  return health_.draining();
}

void FleetReplica::SetDoubt(std::string why) {
  const std::lock_guard lock(mutex_);
  health_.SetDoubt(std::move(why));
}

void FleetReplica::SetLeaving() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  health_.SetDraining(true);
}

TypicalFirstToken FleetReplica::TypicalAt(int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  const Tier tier = health_.TierAt(now_ns);
  return {first_tokens_.QuantileNs(0.5, now_ns - kTypicalOfMs * kNsPerMs, kTypicalLeast),
          health_.EjectedAt(now_ns) || tier == Tier::kLast || tier == Tier::kNever};
}

void FleetReplica::EjectForSlowness(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const bool again = last_ejected_ns_ != 0 &&
                     now_ns - last_ejected_ns_ < 2 * (eject_ms_ + kTypicalOfMs) * kNsPerMs;
  eject_ms_ = again ? std::min(eject_ms_ * 2, kEjectMsMax) : kEjectMs;
  last_ejected_ns_ = now_ns;
  health_.Eject(now_ns, eject_ms_, "its first tokens come far later than its fellows'");
}

std::string FleetReplica::WhyWaits() const {
  const std::lock_guard lock(mutex_);
  return health_.why_waits();
}

bool FleetReplica::IsGone(int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  return health_.GoneAt(now_ns);
}

std::optional<FleetReplica::Change> FleetReplica::TakeChange(int64_t now_ns) {
  Look(now_ns);
  const std::lock_guard lock(mutex_);
  const ReplicaState state = health_.StateAt(now_ns);
  const ReplicaState before = std::exchange(told_, state);
  if (state == before) {
    return std::nullopt;
  }
  return Change{before, state, health_.WhyAt(now_ns),
                state == ReplicaState::kDown && !health_.ready()};
}

ReplicaStatus FleetReplica::StatusAt(int64_t now_ns) const {
  const auto capabilities = driver_->capabilities();
  ReplicaStatus status;
  status.name = name_;
  status.engine = capabilities->engine;
  status.version = capabilities->version;
  status.models = models();
  status.load = driver_->Load();
  status.in_flight = in_flight_.load();
  status.weight = weight_.load();
  status.max_concurrency = max_concurrency_.load();
  const std::lock_guard lock(mutex_);
  status.backlog_tokens = estimate_.backlog_tokens(now_ns / kNsPerUs);
  status.state = health_.StateAt(now_ns);
  status.leaving = leaving_;
  status.why = leaving_ ? "it was taken out of the fleet" : health_.WhyAt(now_ns);
  status.breaker = health_.BreakerAt(now_ns);
  if (prompt_tokens_ > 0) {
    status.hit_rate = cached_tokens_ / prompt_tokens_;
  }
  if (const auto p50 = first_tokens_.QuantileNs(0.5)) {
    status.ttft_p50_s = Seconds(*p50);
    status.ttft_p99_s = Seconds(*first_tokens_.QuantileNs(0.99));
  }
  status.attempts = attempts_;
  status.failures = failures_;
  return status;
}

}  // namespace fak::fleet

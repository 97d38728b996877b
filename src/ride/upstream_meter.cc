#include "ride/upstream_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "ride/request_meter.h"

namespace fak::ride {

UpstreamMeter::UpstreamMeter(metrics::Registry& registry, UpstreamMeterOptions options,
                             const Clock& clock)
    : registry_(registry),
      options_(std::move(options)),
      keeps_rows_(registry.MakeEmitter({.worker = options_.worker})),
      clock_(clock),
      engine_(options_.engine) {}

// A client names any model it likes; a label is one that the upstream serves.
std::string UpstreamMeter::ModelOf(const driver::Prepared& prepared) const {
  if (!options_.model.empty()) {
    return options_.model;
  }
  const std::string& asked = driver::ModelOf(prepared);
  if (std::find(served_.begin(), served_.end(), asked) != served_.end()) {
    return asked;
  }
  return served_.size() == 1 ? served_.front() : asked.empty() ? "" : "other";
}

UpstreamMeter::Model& UpstreamMeter::Find(const std::string& model) {
  const bool fits = models_.contains(model) || models_.size() < limits::kMetricModelsMax;
  const std::string name = fits ? model : "other";
  Model& found = models_[name];
  if (found.emitter == nullptr) {
    found.emitter = registry_.MakeEmitter({.worker = options_.worker,
                                           .engine = engine_,
                                           .model = name,
                                           .role = options_.role,
                                           .source = "gateway"});
  }
  return found;
}

std::shared_ptr<driver::EventSink> UpstreamMeter::Measure(const driver::Prepared& prepared,
                                                          std::shared_ptr<driver::EventSink> sink) {
  const std::lock_guard lock(mutex_);
  std::string name = ModelOf(prepared);
  Model& model = Find(name);
  model.emitter->Set(metrics::Gauge::kRunning, ++model.open);
  return std::make_shared<RequestMeter>(std::move(sink), model.emitter, prepared, clock_,
                                        [this, name = std::move(name)] { Ended(name); });
}

void UpstreamMeter::Ended(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Model& model = Find(name);
  model.emitter->Set(metrics::Gauge::kRunning, --model.open);
}

void UpstreamMeter::Fill(driver::LoadReport& report) const {
  const std::lock_guard lock(mutex_);
  if (clock_.NowNs() >= load_until_ns_) {
    return;
  }
  const auto whole = [](const std::optional<double>& value) {
    return value ? std::optional(static_cast<int32_t>(std::min(*value, 1e9))) : std::nullopt;
  };
  report.running = load_.running ? whole(load_.running) : report.running;
  report.waiting = whole(load_.waiting);
  report.kv_usage = load_.kv_usage;
  report.kv_blocks_total = load_.kv_blocks_total;
  if (load_.kv_blocks_total && load_.kv_usage) {
    const double free = 1 - std::clamp(*load_.kv_usage, 0.0, 1.0);
    report.kv_blocks_free =
        static_cast<uint64_t>(std::llround(free * static_cast<double>(*load_.kv_blocks_total)));
  }
  report.prefill_tokens_per_s = load_.prefill_tokens_per_s;
  report.decode_tokens_per_s = load_.decode_tokens_per_s;
}

void UpstreamMeter::SetUp(bool up) {
  const std::lock_guard lock(mutex_);
  Find(options_.model).emitter->Set(metrics::Gauge::kEngineUp, up ? 1 : 0);
}

void UpstreamMeter::CountGenerationProbe(bool answered) {
  const std::lock_guard lock(mutex_);
  metrics::Emitter& emitter = *Find(options_.model).emitter;
  emitter.Add(metrics::Counter::kGenerationProbes, 1);
  emitter.Add(metrics::Counter::kGenerationProbesFailed, answered ? 0 : 1);
}

void UpstreamMeter::CountKvEvents(const KvEventCounts& counts) {
  using metrics::Counter;
  constexpr std::pair<Counter, uint64_t KvEventCounts::*> kRows[] = {
      {Counter::kKvEventBatches, &KvEventCounts::batches},
      {Counter::kKvBlocksStored, &KvEventCounts::stored},
      {Counter::kKvBlocksRemoved, &KvEventCounts::removed},
      {Counter::kKvEventResets, &KvEventCounts::resets},
      {Counter::kKvEventGaps, &KvEventCounts::gaps},
      {Counter::kKvEventReplays, &KvEventCounts::replays},
      {Counter::kKvEventReplaysFailed, &KvEventCounts::replays_failed},
      {Counter::kKvEventsDropped, &KvEventCounts::dropped},
  };
  const std::lock_guard lock(mutex_);
  if (engine_ == "auto") {
    return;  // the rows would stay under a label that says nothing
  }
  for (const auto& [counter, member] : kRows) {
    const uint64_t grown = counts.*member - kv_events_.*member;
    Find(options_.model).emitter->Add(counter, static_cast<double>(grown));
  }
  kv_events_ = counts;
}

void UpstreamMeter::SetModels(std::vector<std::string> models) {
  const std::lock_guard lock(mutex_);
  served_ = std::move(models);
}

void UpstreamMeter::StartScraping(net::EventLoop& loop, net::HttpClient& client,
                                  const std::string& engine,
                                  std::vector<net::HttpClientRequest> requests) {
  {
    const std::lock_guard lock(mutex_);
    if (!sources_.empty() && engine == engine_) {
      return;  // its counters go on
    }
  }
  StopScraping();
  {
    const std::lock_guard lock(mutex_);
    if (engine_ != engine) {
      engine_ = engine;
      for (auto& [name, model] : models_) {  // under the old label nothing runs any more
        model.emitter->Set(metrics::Gauge::kRunning, 0);
        model.emitter = nullptr;
      }
    }
  }
  const MetricMap map = MetricMapOf(engine);
  if (options_.scrape_every_ms <= 0 || map.rules.empty()) {
    return;
  }
  for (net::HttpClientRequest& request : requests) {
    const size_t place = sources_.size();
    const std::string worker = options_.worker + (place == 0 ? "" : "/" + std::to_string(place));
    auto mirror = registry_.MakeMirror({.worker = worker,
                                        .engine = engine,
                                        .model = options_.model,
                                        .role = options_.role,
                                        .source = "engine"});
    Source& source = *sources_.emplace_back(std::make_unique<Source>(Source{
        worker, EngineCounts(map, options_.model, options_.role), std::move(mirror), {}, {}}));
    source.scraper = std::make_unique<Scraper>(
        loop, client, std::move(request), options_.scrape_every_ms,
        [this, &source](Result<std::string> text) { Take(source, std::move(text)); });
  }
}

void UpstreamMeter::StopScraping() {
  sources_.clear();
  const std::lock_guard lock(mutex_);
  load_until_ns_ = 0;
}

void UpstreamMeter::Take(Source& source, Result<std::string> text) {
  const int64_t now_ns = clock_.NowNs();
  // A scrape may be missed, and the next one late, before what it said is too old.
  const int64_t fresh_until_ns =
      now_ns + (int64_t{2} * options_.scrape_every_ms + limits::kScrapeTimeoutMs) * kNsPerMs;
  Status taken = text ? source.counts.Take(*text, now_ns) : Status(Fail(text.error()));
  if (&source == sources_.front().get()) {
    const std::lock_guard lock(mutex_);
    load_ = source.counts.load();
    load_until_ns_ = taken ? fresh_until_ns : 0;
  }
  if (taken && &source == sources_.front().get()) {
    for (const auto& other : sources_) {
      if (other.get() != &source) {
        other->counts.SetWorkerRoles(source.counts.worker_roles());
      }
    }
  }
  std::string word;
  if (taken) {
    source.mirror->Show(source.counts.Values(), fresh_until_ns);
    word = source.counts.cut() ? "has more series than are counted" : "";
  } else if (taken.error().code == Code::kUnsupported) {
    source.mirror->Clear();
    word = "has no metrics: " + taken.error().detail;
  } else {
    source.mirror->Down();
    word = "gives no metrics: " + taken.error().detail;
  }
  if (word != source.said && !word.empty()) {
    Log(LogLevel::kWarning, "{} {}", source.worker, word);
  }
  source.said = std::move(word);
}

}  // namespace fak::ride

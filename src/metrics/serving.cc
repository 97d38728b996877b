#include "metrics/serving.h"

#include <array>
#include <atomic>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace fak::metrics {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

struct Row {
  const char* name;
  const char* help;
};

// Buckets are vLLM's, so that dashboards made for it fit.
const Buckets kFirstTokenBuckets = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                    0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                    20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
const Buckets kTokenBuckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                               0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const Buckets kRequestBuckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                 5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kLengthBuckets = {1,     2,      5,      10,     20,     50,    100,
                                200,   500,    1000,   2000,   5000,   10000, 20000,
                                50000, 100000, 200000, 500000, 1000000};

constexpr std::array<Row, 5> kLatencies = {{
    {"fak_serving_time_to_first_token_seconds", "From arrival to the first token."},
    {"fak_serving_time_per_output_token_seconds",
     "Mean time between tokens of a request, without its first."},
    {"fak_serving_inter_token_latency_seconds", "Time between one token and the next."},
    {"fak_serving_e2e_request_latency_seconds", "From arrival to the end of the answer."},
    {"fak_serving_request_queue_time_seconds", "From arrival to the first step."},
}};
constexpr std::array<Row, 2> kTokens = {{
    {"fak_serving_request_prompt_tokens", "Prompt tokens of a request."},
    {"fak_serving_request_generation_tokens", "Generated tokens of a request."},
}};
constexpr std::array<Row, 4> kGauges = {{
    {"fak_serving_num_requests_running", "Sequences in the running batch."},
    {"fak_serving_num_requests_waiting", "Sequences waiting for it."},
    {"fak_serving_kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1."},
    {"fak_serving_engine_up", "1 when the engine would answer now."},
}};
constexpr std::array<Row, 6> kCounters = {{
    {"fak_serving_prompt_tokens_total", "Prompt tokens computed or found in the cache."},
    {"fak_serving_generation_tokens_total", "Tokens generated."},
    {"fak_serving_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."},
    {"fak_serving_prefix_cache_hits_total", "Prompt tokens found in the prefix cache."},
    {"fak_serving_preemptions_total", "Sequences that lost their blocks and ran again."},
    {"fak_serving_unknown_request_fields_total", "Request fields that nobody here knows."},
}};

const Buckets& BucketsOf(Latency what) {
  switch (what) {
    case Latency::kTimeToFirstToken: return kFirstTokenBuckets;
    case Latency::kTimePerOutputToken:
    case Latency::kInterToken: return kTokenBuckets;
    case Latency::kEndToEnd:
    case Latency::kQueue: return kRequestBuckets;
  }
  return kRequestBuckets;
}

}  // namespace

struct Registry::Impl {
  prometheus::Registry registry;
};

// Looking a row up by its labels costs a map; each is found once and then kept.
template <class Metric, size_t kCount>
using Found = std::array<std::atomic<Metric*>, kCount>;

struct Emitter::Impl {
  Impl(Registry::Impl& owner_registry, prometheus::Labels own_labels)
      : owner(owner_registry), labels(std::move(own_labels)) {}

  Registry::Impl& owner;
  const prometheus::Labels labels;
  Found<prometheus::Histogram, kLatencies.size()> latencies{};
  Found<prometheus::Histogram, kTokens.size()> tokens{};
  Found<prometheus::Gauge, kGauges.size()> gauges{};
  Found<prometheus::Counter, kCounters.size()> counters{};

  prometheus::Histogram& Histogram(std::atomic<prometheus::Histogram*>& found, const Row& row,
                                   const Buckets& buckets) {
    prometheus::Histogram* histogram = found.load(std::memory_order_acquire);
    if (histogram == nullptr) {
      histogram = &prometheus::BuildHistogram()
                       .Name(row.name)
                       .Help(row.help)
                       .Register(owner.registry)
                       .Add(labels, buckets);
      found.store(histogram, std::memory_order_release);
    }
    return *histogram;
  }
  template <class Builder, class Metric>
  Metric& Simple(std::atomic<Metric*>& found, const Row& row, Builder builder) {
    Metric* metric = found.load(std::memory_order_acquire);
    if (metric == nullptr) {
      metric = &builder.Name(row.name).Help(row.help).Register(owner.registry).Add(labels);
      found.store(metric, std::memory_order_release);
    }
    return *metric;
  }
  prometheus::Counter& Labelled(const char* name, const char* help, const char* key,
                                std::string_view value) {
    prometheus::Labels all = labels;
    all.emplace(key, value);
    return prometheus::BuildCounter().Name(name).Help(help).Register(owner.registry).Add(all);
  }
};

Emitter::Emitter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Emitter::~Emitter() = default;

void Emitter::Observe(Latency what, double seconds) {
  const auto i = static_cast<size_t>(what);
  impl_->Histogram(impl_->latencies[i], kLatencies[i], BucketsOf(what)).Observe(seconds);
}

void Emitter::Observe(Tokens what, double tokens) {
  const auto i = static_cast<size_t>(what);
  impl_->Histogram(impl_->tokens[i], kTokens[i], kLengthBuckets).Observe(tokens);
}

void Emitter::Set(Gauge what, double value) {
  const auto i = static_cast<size_t>(what);
  impl_->Simple(impl_->gauges[i], kGauges[i], prometheus::BuildGauge()).Set(value);
}

void Emitter::Add(Counter what, double amount) {
  const auto i = static_cast<size_t>(what);
  impl_->Simple(impl_->counters[i], kCounters[i], prometheus::BuildCounter()).Increment(amount);
}

void Emitter::CountRequest(std::string_view outcome) {
  impl_->Labelled("fak_serving_requests_total", "Requests by how they ended.", "outcome", outcome)
      .Increment();
}

void Emitter::CountError(std::string_view kind) {
  impl_
      ->Labelled("fak_serving_request_errors_total", "Requests that ended with an error.", "kind",
                 kind)
      .Increment();
}

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

std::shared_ptr<Emitter> Registry::MakeEmitter(const Labels& labels) {
  const prometheus::Labels all{{"worker", labels.worker},
                               {"engine", labels.engine},
                               {"model", labels.model},
                               {"role", labels.role},
                               {"source", labels.source}};
  return std::shared_ptr<Emitter>(new Emitter(std::make_unique<Emitter::Impl>(*impl_, all)));
}

std::string Registry::Exposition() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace fak::metrics

#include "metrics/serving.h"

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/limits.h"
#include "base/utf8.h"

namespace fak::metrics {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

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

// Each of the emitter's enumerations names rows that stand together in the schema.
constexpr size_t kLatencyRows = 5;
constexpr size_t kTokenRows = 2;
constexpr size_t kGaugeRows = 4;
constexpr size_t kCounterRows = static_cast<size_t>(Counter::kGenerationProbesFailed) + 1;
template <class What>
Row RowAfter(Row first, What what) {
  return static_cast<Row>(static_cast<size_t>(first) + static_cast<size_t>(what));
}
Row RowOf(Latency what) {
  return RowAfter(Row::kTimeToFirstToken, what);
}
Row RowOf(Tokens what) {
  return RowAfter(Row::kRequestPromptTokens, what);
}
Row RowOf(Gauge what) {
  return RowAfter(Row::kRunning, what);
}
Row RowOf(Counter what) {
  return RowAfter(Row::kPromptTokens, what);
}

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

// A label's value as it is shown: valid, and no longer than its bound.
std::string ShownLabel(const std::string& value) {
  const size_t whole =
      ValidUtf8Prefix(std::string_view(value).substr(0, limits::kMetricLabelBytesMax));
  return value.size() <= limits::kMetricLabelBytesMax ? ReplaceInvalidUtf8(value)
                                                      : value.substr(0, whole);
}

template <class Builder>
auto& FamilyOf(Builder builder, Row row, prometheus::Registry& registry) {
  const RowInfo& info = InfoOf(row);
  return builder.Name(std::string(info.name)).Help(std::string(info.help)).Register(registry);
}

prometheus::MetricType TypeOf(RowType type) {
  switch (type) {
    case RowType::kHistogram: return prometheus::MetricType::Histogram;
    case RowType::kGauge: return prometheus::MetricType::Gauge;
    case RowType::kCounter: return prometheus::MetricType::Counter;
  }
  return prometheus::MetricType::Untyped;
}

// The rows that a worker's emitters have.
class WorkerRows {
 public:
  WorkerRows() = default;
  WorkerRows(const WorkerRows&) = delete;
  WorkerRows& operator=(const WorkerRows&) = delete;
  ~WorkerRows() {
    for (const auto& [metric, remove] : rows_) {
      remove();
    }
  }

  // The row of the family with these labels; made where it isn't there.
  template <class Metric, class... Buckets>
  Metric& Row(prometheus::Family<Metric>& family, const prometheus::Labels& labels,
              const Buckets&... buckets) {
    const std::lock_guard lock(mutex_);
    Metric& metric = family.Add(labels, buckets...);
    rows_.try_emplace(&metric, [&family, &metric] { family.Remove(&metric); });
    return metric;
  }

  size_t speakers = 0;  // guarded by the registry's mutex

 private:
  std::mutex mutex_;
  std::map<const void*, std::function<void()>> rows_;  // guarded by mutex_
};

}  // namespace

struct Registry::Impl {
  Impl(std::vector<Slo> objectives, const Clock& its_clock)
      : slos(std::move(objectives)), clock(its_clock) {}

  const std::vector<Slo> slos;
  const Clock& clock;
  prometheus::Registry registry;
  std::mutex mutex;  // guards the members below
  std::map<std::string, WorkerRows> workers;
  std::vector<std::pair<Labels, std::weak_ptr<Mirror>>> mirrors;

  // The labels as they are shown, and the rows of their worker, for whom somebody speaks as long as
  // these are kept. They go with the mutex held, so that nobody finds one of them who comes then.
  std::pair<Labels, std::shared_ptr<WorkerRows>> Shown(const Labels& labels) {
    Labels shown{ShownLabel(labels.worker), ShownLabel(labels.engine), ShownLabel(labels.model),
                 ShownLabel(labels.role), ShownLabel(labels.source)};
    const std::lock_guard lock(mutex);
    if (!workers.contains(shown.worker) && workers.size() >= limits::kMetricWorkersMax) {
      shown.worker = "other";
    }
    WorkerRows& rows = workers[shown.worker];
    ++rows.speakers;
    const auto leave = [this, worker = shown.worker](WorkerRows* its) {
      const std::lock_guard leaving(mutex);
      if (--its->speakers == 0) {
        workers.erase(worker);
      }
    };
    std::shared_ptr<WorkerRows> speaks(&rows, leave);
    return {std::move(shown), std::move(speaks)};
  }
};

// Looking a row up by its labels costs a map; each is found once and then kept.
template <class Metric, size_t kCount>
using Found = std::array<std::atomic<Metric*>, kCount>;

struct Emitter::Impl {
  Impl(Registry::Impl& owner_registry, prometheus::Labels own_labels,
       std::shared_ptr<WorkerRows> worker_rows)
      : owner(owner_registry), labels(std::move(own_labels)), rows(std::move(worker_rows)) {}

  Registry::Impl& owner;
  const prometheus::Labels labels;
  const std::shared_ptr<WorkerRows> rows;  // those found below are among them
  Found<prometheus::Histogram, kLatencyRows> latencies{};
  Found<prometheus::Histogram, kTokenRows> tokens{};
  Found<prometheus::Gauge, kGaugeRows> gauges{};
  Found<prometheus::Counter, kCounterRows> counters{};

  prometheus::Histogram& Histogram(std::atomic<prometheus::Histogram*>& found, Row row,
                                   const Buckets& buckets) {
    prometheus::Histogram* histogram = found.load(std::memory_order_acquire);
    if (histogram == nullptr) {
      histogram =
          &rows->Row(FamilyOf(prometheus::BuildHistogram(), row, owner.registry), labels, buckets);
      found.store(histogram, std::memory_order_release);
    }
    return *histogram;
  }
  template <class Builder, class Metric>
  Metric& Simple(std::atomic<Metric*>& found, Row row, const Builder& builder) {
    Metric* metric = found.load(std::memory_order_acquire);
    if (metric == nullptr) {
      metric = &rows->Row(FamilyOf(builder, row, owner.registry), labels);
      found.store(metric, std::memory_order_release);
    }
    return *metric;
  }
  prometheus::Counter& Labelled(Row row, std::string_view value) {
    prometheus::Labels all = labels;
    all.emplace(InfoOf(row).label, value);
    return rows->Row(FamilyOf(prometheus::BuildCounter(), row, owner.registry), all);
  }
};

Emitter::Emitter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Emitter::~Emitter() = default;

void Emitter::Observe(Latency what, double seconds) {
  impl_->Histogram(impl_->latencies[static_cast<size_t>(what)], RowOf(what), BucketsOf(what))
      .Observe(seconds);
}

void Emitter::Observe(Tokens what, double tokens) {
  impl_->Histogram(impl_->tokens[static_cast<size_t>(what)], RowOf(what), kLengthBuckets)
      .Observe(tokens);
}

void Emitter::Set(Gauge what, double value) {
  impl_->Simple(impl_->gauges[static_cast<size_t>(what)], RowOf(what), prometheus::BuildGauge())
      .Set(value);
}

void Emitter::Add(Counter what, double amount) {
  impl_->Simple(impl_->counters[static_cast<size_t>(what)], RowOf(what), prometheus::BuildCounter())
      .Increment(amount);
}

void Emitter::CountRequest(std::string_view outcome) {
  impl_->Labelled(Row::kRequests, outcome).Increment();
}

void Emitter::CountError(std::string_view kind) {
  impl_->Labelled(Row::kErrors, kind).Increment();
}

void Emitter::CountLimitRefusal(std::string_view limit) {
  impl_->Labelled(Row::kLimitRefusals, limit).Increment();
}

void Emitter::CountMigration(std::string_view outcome) {
  impl_->Labelled(Row::kMigrations, outcome).Increment();
}

void Emitter::CountGoodput(const RequestTimes& times) {
  for (const Slo& slo : impl_->owner.slos) {
    if (Meets(slo, times)) {
      impl_->Labelled(Row::kGoodput, slo.name).Increment();
    }
  }
}

Registry::Registry(std::vector<Slo> slos, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(slos), clock)) {}
Registry::~Registry() = default;

std::shared_ptr<Emitter> Registry::MakeEmitter(const Labels& labels) {
  auto [shown, rows] = impl_->Shown(labels);
  const prometheus::Labels all{{"worker", shown.worker},
                               {"engine", shown.engine},
                               {"model", shown.model},
                               {"role", shown.role},
                               {"source", shown.source}};
  return std::shared_ptr<Emitter>(
      new Emitter(std::make_unique<Emitter::Impl>(*impl_, all, std::move(rows))));
}

std::shared_ptr<Mirror> Registry::MakeMirror(const Labels& labels) {
  struct Speaking {  // for its worker
    std::shared_ptr<WorkerRows> rows;
    Mirror mirror;
  };
  const auto speaking = std::make_shared<Speaking>();
  auto [shown, rows] = impl_->Shown(labels);
  speaking->rows = std::move(rows);
  std::shared_ptr<Mirror> mirror(speaking, &speaking->mirror);
  const std::lock_guard lock(impl_->mutex);
  std::erase_if(impl_->mirrors, [](const auto& known) { return known.second.expired(); });
  if (shown.worker == ShownLabel(labels.worker)) {  // rows of two under "other" would clash
    impl_->mirrors.emplace_back(shown, mirror);
  }
  return mirror;
}

namespace {

prometheus::ClientMetric MetricOf(const Labels& labels, const MirrorValue& value) {
  const RowInfo& info = InfoOf(value.row);
  prometheus::ClientMetric metric;
  metric.label = {{"engine", labels.engine},
                  {"model", ShownLabel(value.model)},
                  {"role", value.role},
                  {"source", labels.source},
                  {"worker", labels.worker}};
  if (!info.label.empty()) {
    metric.label.push_back({std::string(info.label), ShownLabel(value.label)});
  }
  switch (info.type) {
    case RowType::kGauge: metric.gauge.value = value.value; break;
    case RowType::kCounter: metric.counter.value = value.value; break;
    case RowType::kHistogram:
      metric.histogram.sample_count = value.histogram.count;
      metric.histogram.sample_sum = value.histogram.sum;
      for (size_t i = 0; i < value.histogram.bounds.size(); ++i) {
        metric.histogram.bucket.push_back(
            {value.histogram.cumulative[i], value.histogram.bounds[i]});
      }
      metric.histogram.bucket.push_back(
          {value.histogram.count, std::numeric_limits<double>::infinity()});
      break;
  }
  return metric;
}

// A family's HELP and TYPE may stand once only, so values join the family that has them.
void AddTo(std::map<std::string_view, prometheus::MetricFamily>& families, const Labels& labels,
           const MirrorValue& value) {
  const RowInfo& info = InfoOf(value.row);
  prometheus::MetricFamily& family = families[info.name];
  family.name = info.name;
  family.help = info.help;
  family.type = TypeOf(info.type);
  family.metric.push_back(MetricOf(labels, value));
}

}  // namespace

std::string Registry::Exposition() const {
  std::vector<std::pair<Labels, std::shared_ptr<Mirror>>> mirrors;
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [labels, weak] : impl_->mirrors) {
      if (std::shared_ptr<Mirror> mirror = weak.lock()) {
        mirrors.emplace_back(labels, std::move(mirror));
      }
    }
  }
  std::map<std::string_view, prometheus::MetricFamily> families;
  for (prometheus::MetricFamily& family : impl_->registry.Collect()) {
    for (const RowInfo& info : Schema()) {
      if (info.name == family.name) {
        families[info.name] = std::move(family);
        break;
      }
    }
  }
  const int64_t now_ns = impl_->clock.NowNs();
  for (const auto& [labels, mirror] : mirrors) {
    const Mirror::Shown shown = mirror->At(now_ns);
    for (const MirrorValue& value : shown.values) {
      AddTo(families, labels, value);
    }
    if (shown.known) {
      AddTo(families, labels,
            {Row::kEngineUp, labels.model, labels.role, "", shown.up ? 1.0 : 0.0, {}});
    }
  }
  std::vector<prometheus::MetricFamily> all;
  all.reserve(families.size());
  for (auto& [name, family] : families) {
    all.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace fak::metrics

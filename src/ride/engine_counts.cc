#include "ride/engine_counts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/strings.h"

namespace fak::ride {
namespace {

using metrics::HistogramValue;
using metrics::InfoOf;
using metrics::Row;
using metrics::RowType;
using metrics::TextLabel;
using metrics::TextSample;

constexpr std::string_view kOther = "other";

bool IsHistogram(const MetricRule& rule) {
  return InfoOf(rule.row).type == RowType::kHistogram;
}
bool IsGauge(const MetricRule& rule) {
  return InfoOf(rule.row).type == RowType::kGauge;
}

bool Passes(const MetricRule& rule, const TextSample& sample) {
  return std::all_of(rule.tests.begin(), rule.tests.end(), [&](const LabelTest& test) {
    return test.label.empty() || (sample.Label(test.label) == test.value) == test.equal;
  });
}

// Which series it is: its rule and its labels, apart from a bucket's bound.
std::string KeyOf(const TextSample& sample, size_t rule) {
  std::string key = std::to_string(rule);
  for (const TextLabel& label : sample.labels) {
    if (label.name != "le") {
      key += '\0';
      key += label.name;
      key += '\0';
      key += label.value;
    }
  }
  return key;
}

// Whatever an engine counts: no count of today's is near it, all series of it together fit
// uint64_t, and a double holds it to the unit.
constexpr double kCountMax = 1e15;

// A count; nullopt for what can't be one.
std::optional<uint64_t> CountOf(double value) {
  if (!(value >= 0 && value <= kCountMax)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(std::llround(value));
}

// A gauge; nullopt for what can't be one. Engines round: a little more than all of it is all.
std::optional<double> GaugeOf(double value, const MetricRule& rule) {
  constexpr double kRounding = 0.01;
  constexpr double kMax = 1e9;  // requests
  const bool share = rule.row == Row::kKvUsage;
  if (!(value >= 0 && value * std::abs(rule.scale) <= (share ? 1 + kRounding : kMax))) {
    return std::nullopt;
  }
  return share ? std::min(value, 1 / std::abs(rule.scale)) : value;
}

// Whether its buckets are what was counted up to their bounds.
bool Holds(const HistogramValue& histogram) {
  return std::is_sorted(histogram.cumulative.begin(), histogram.cumulative.end()) &&
         (histogram.cumulative.empty() || histogram.cumulative.back() <= histogram.count);
}

int64_t RankOf(const TextSample& sample) {
  constexpr int64_t kRanksMax = 1'000'000;
  const int64_t tp = ParseInt(sample.Label("tp_rank")).value_or(0);
  const int64_t pp = ParseInt(sample.Label("pp_rank")).value_or(0);
  return std::clamp<int64_t>(pp, 0, kRanksMax) * kRanksMax + std::clamp<int64_t>(tp, 0, kRanksMax);
}

// Whether a histogram can't be the one before, grown. Its sum may fall, by rounding.
bool Fell(const HistogramValue& now, const HistogramValue& before) {
  return now.count < before.count || now.bounds != before.bounds ||
         !std::equal(now.cumulative.begin(), now.cumulative.end(), before.cumulative.begin(),
                     std::greater_equal<>());
}

// Adds what `now` has more than `before` to `total`. Bounds that not all have are dropped: what is
// known at the others stays exact.
void AddGrowth(const HistogramValue& now, const HistogramValue& before, HistogramValue& total) {
  const bool known = !before.cumulative.empty();
  const bool first = total.count == 0 && total.bounds.empty();
  HistogramValue sum;
  for (size_t i = 0; i < now.bounds.size(); ++i) {
    const uint64_t grown = now.cumulative[i] - (known ? before.cumulative[i] : 0);
    const auto at = std::find(total.bounds.begin(), total.bounds.end(), now.bounds[i]);
    if (first || at != total.bounds.end()) {
      const auto place = static_cast<size_t>(at - total.bounds.begin());
      sum.bounds.push_back(now.bounds[i]);
      sum.cumulative.push_back((first ? 0 : total.cumulative[place]) + grown);
    }
  }
  sum.count = total.count + now.count - before.count;
  sum.sum = total.sum + std::max(0.0, now.sum - before.sum);
  total = std::move(sum);
}

}  // namespace

EngineCounts::EngineCounts(MetricMap map, std::string model, std::string role)
    : map_(std::move(map)), model_(std::move(model)), role_(std::move(role)) {
  for (size_t i = 0; i < map_.rules.size(); ++i) {
    const MetricRule& rule = map_.rules[i];
    const std::string family(rule.family);
    if (!IsHistogram(rule)) {
      sources_[family].push_back({i, Piece::kWhole});
      continue;
    }
    sources_[family + "_bucket"].push_back({i, Piece::kBucket});
    sources_[family + "_sum"].push_back({i, Piece::kSum});
    sources_[family + "_count"].push_back({i, Piece::kCount});
  }
}

Status EngineCounts::Take(std::string_view text, int64_t now_ns) {
  Reading reading;
  TRY_ASSIGN(
      const metrics::TextCounts counts,
      metrics::ParseText(
          text, [&](const TextSample& sample) { TakeSample(sample, reading); },
          [&](std::string_view name, std::string_view help) { TakeHelp(name, help, reading); }));
  if (counts.samples == 0 && counts.refused_lines > 0) {
    return Fail(Code::kDataCorrupt, "its metrics are no Prometheus text");
  }
  for (auto& [key, series] : reading.series) {
    for (const auto& [bound, count] : series.buckets) {
      series.histogram.bounds.push_back(bound);
      series.histogram.cumulative.push_back(count);
    }
  }
  std::erase_if(reading.series, [](const auto& entry) { return !Holds(entry.second.histogram); });
  if (Restarted(reading)) {
    last_.clear();
  }
  for (auto& [key, series] : reading.series) {
    if (series.role.empty()) {
      series.role = RoleOfAll(reading);
    }
  }
  if (RolesChanged(reading)) {
    last_.clear();
    totals_.clear();
  }
  roles_told_ = std::move(reading.roles);
  start_time_ = reading.start_time ? reading.start_time : start_time_;
  cut_ = reading.cut;
  DropUncounted(reading);
  std::map<Target, Mean> gauges;
  for (const auto& [key, series] : reading.series) {
    Count(key, series, gauges);
  }
  gauges_.clear();
  for (const auto& [target, mean] : gauges) {
    const auto& [row, model, role, label] = target;
    const double value =
        row == Row::kKvUsage ? mean.sum / static_cast<double>(mean.count) : std::max(0.0, mean.sum);
    gauges_.push_back({row, model, role, label, value, {}});
  }
  UpdateLoad(reading, gauges, now_ns);
  return {};
}

void EngineCounts::TakeHelp(std::string_view name, std::string_view help, Reading& reading) const {
  const auto found = sources_.find(name);
  if (found == sources_.end()) {
    return;
  }
  for (const Source& source : found->second) {
    const std::string_view wanted = map_.rules[source.rule].help_has;
    if (!wanted.empty() && help.find(wanted) != std::string_view::npos) {
      reading.helped.emplace(name);
    }
  }
}

void EngineCounts::TakeSample(const TextSample& sample, Reading& reading) const {
  if (!roles_.empty() && reading.workers.size() < 2) {
    if (const std::string_view worker = sample.Label("worker_id"); !worker.empty()) {
      reading.workers.emplace(worker);
    }
  }
  if (sample.name == "process_start_time_seconds") {
    reading.start_time =
        std::isfinite(sample.value) ? std::optional(sample.value) : reading.start_time;
  } else if (!map_.blocks_family.empty() && sample.name == map_.blocks_family) {
    if (const std::optional<double> blocks = ParseFloat(sample.Label(map_.blocks_label))) {
      reading.blocks = reading.blocks.value_or(0) + *blocks;
    }
  } else if (!map_.roles_family.empty() && sample.name == map_.roles_family) {
    TakeRole(sample, reading);
  }
  const auto found = sources_.find(sample.name);
  if (found == sources_.end()) {
    return;
  }
  for (const Source& source : found->second) {
    const MetricRule& rule = map_.rules[source.rule];
    if (Passes(rule, sample) && (rule.help_has.empty() || reading.helped.contains(sample.name))) {
      AddPiece(sample, source, reading);
    }
  }
}

void EngineCounts::TakeRole(const TextSample& sample, Reading& reading) {
  const std::optional<uint64_t> id = ParseUint(sample.Label("worker_id"));
  const std::string_view role = sample.Label("worker_type");
  if (id && (role == "prefill" || role == "decode") &&
      reading.roles.size() < limits::kMetricWorkersMax) {
    const std::string hex = ToHex(*id);
    reading.roles[hex.substr(std::min(hex.find_first_not_of('0'), hex.size() - 1))] = role;
  }
}

void EngineCounts::AddPiece(const TextSample& sample, Source source, Reading& reading) const {
  const MetricRule& rule = map_.rules[source.rule];
  const std::optional<uint64_t> count = CountOf(sample.value);
  const std::optional<double> gauge =
      IsGauge(rule) ? GaugeOf(sample.value, rule) : std::optional(sample.value);
  const bool usable = source.piece == Piece::kSum ? std::abs(sample.value) <= kCountMax
                      : IsGauge(rule)             ? gauge.has_value()
                                                  : count.has_value();
  if (!usable) {
    return;
  }
  const std::string key = KeyOf(sample, source.rule);
  auto found = reading.series.find(key);
  if (found == reading.series.end()) {
    if (reading.series.size() >= limits::kScrapeSeriesMax) {
      reading.cut = true;
      return;
    }
    found = reading.series.emplace(key, NewSeries(sample, rule, source.rule)).first;
  }
  Series& series = found->second;
  switch (source.piece) {
    case Piece::kWhole: series.value = *gauge; break;
    case Piece::kSum: series.histogram.sum = sample.value; break;
    case Piece::kCount: series.histogram.count = *count; break;
    case Piece::kBucket:
      if (const std::optional<double> bound = ParseFloat(sample.Label("le"));
          bound && series.buckets.size() < limits::kScrapeBucketsMax) {
        series.buckets[*bound] = *count;
      }
      break;
  }
}

EngineCounts::Series EngineCounts::NewSeries(const TextSample& sample, const MetricRule& rule,
                                             size_t index) const {
  Series series;
  series.rule = index;
  series.model = model_;
  for (const std::string_view label :
       {std::string_view("model_name"), std::string_view("model"), map_.model_label}) {
    if (const std::string_view model = sample.Label(label); !model.empty()) {
      series.model = model;
      break;
    }
  }
  for (const std::string_view label : {"role", "engine_type", "dynamo_component"}) {
    if (const std::string_view role = sample.Label(label); role == "prefill" || role == "decode") {
      series.role = role;
    }
  }
  series.label = rule.label == "*" ? sample.Label(InfoOf(rule.row).label) : rule.label;
  series.copies = sample.Label("dp_rank");
  series.rank = RankOf(sample);
  return series;
}

// Of series that don't say it: a text that names one worker alone is all about that one.
std::string EngineCounts::RoleOfAll(const Reading& reading) const {
  const auto told =
      reading.workers.size() == 1 ? roles_.find(*reading.workers.begin()) : roles_.end();
  return told != roles_.end() ? told->second : role_;
}

bool EngineCounts::RolesChanged(const Reading& reading) const {
  return std::any_of(reading.series.begin(), reading.series.end(), [this](const auto& entry) {
    const auto before = last_.find(entry.first);
    return before != last_.end() && before->second.role != entry.second.role;
  });
}

// An engine that tells when it began is believed; of any other, no counter can fall.
bool EngineCounts::Restarted(const Reading& reading) const {
  if (start_time_ && reading.start_time && *start_time_ != *reading.start_time) {
    return true;
  }
  return std::any_of(reading.series.begin(), reading.series.end(), [this](const auto& entry) {
    const auto& [key, series] = entry;
    const auto before = last_.find(key);
    return before != last_.end() && !map_.rules[series.rule].resets_alone &&
           (series.value < before->second.value ||
            Fell(series.histogram, before->second.histogram));
  });
}

std::set<EngineCounts::Way> EngineCounts::ChosenWays(const Reading& reading) const {
  const auto parts_of = [](const MetricRule& rule, std::map<Way, std::set<uint8_t>>& parts) {
    parts[{rule.row, rule.label, rule.choice}].insert(rule.part);
  };
  std::map<Way, std::set<uint8_t>> needed;
  for (const MetricRule& rule : map_.rules) {
    parts_of(rule, needed);
  }
  std::map<Way, std::set<uint8_t>> there;
  for (const auto& [key, series] : reading.series) {
    parts_of(map_.rules[series.rule], there);
  }
  std::set<Way> chosen;
  std::set<std::pair<Row, std::string_view>> done;
  for (const auto& [way, parts] : there) {  // choices in ascending order
    const auto& [row, label, choice] = way;
    if (parts == needed[way] && done.emplace(row, label).second) {
      chosen.insert(way);
    }
  }
  return chosen;
}

// Leaves the series that count: of the chosen ways, and one of those that are copies.
void EngineCounts::DropUncounted(Reading& reading) const {
  const std::set<Way> chosen = ChosenWays(reading);
  std::map<std::tuple<size_t, std::string, std::string, std::string>, int64_t> lowest;
  const auto group_of = [](const Series& series) {
    return std::tuple(series.rule, series.model, series.role, series.copies);
  };
  std::erase_if(reading.series, [&](const auto& entry) {
    const Series& series = entry.second;
    const MetricRule& rule = map_.rules[series.rule];
    if (!chosen.contains({rule.row, rule.label, rule.choice})) {
      return true;
    }
    const auto [at, first] = lowest.emplace(group_of(series), series.rank);
    at->second = first ? series.rank : std::min(at->second, series.rank);
    return false;
  });
  std::erase_if(reading.series, [&](const auto& entry) {
    return entry.second.rank != lowest[group_of(entry.second)];
  });
}

EngineCounts::Target EngineCounts::TargetOf(const Series& series) {
  const MetricRule& rule = map_.rules[series.rule];
  std::string model = series.model;
  if (!models_.contains(model)) {
    if (models_.size() < limits::kMetricModelsMax) {
      models_.insert(model);
    } else {
      model = kOther;
    }
  }
  std::string label = series.label;
  std::set<std::string>& known = labels_[rule.row];
  if (!known.contains(label)) {
    if (known.size() < limits::kMetricValuesMax) {
      known.insert(label);
    } else {
      label = kOther;
    }
  }
  return {rule.row, std::move(model), series.role, std::move(label)};
}

void EngineCounts::Count(const std::string& key, const Series& series,
                         std::map<Target, Mean>& gauges) {
  const MetricRule& rule = map_.rules[series.rule];
  if (IsGauge(rule)) {
    Mean& mean = gauges[TargetOf(series)];
    mean.sum += series.value * rule.scale;
    ++mean.count;
    return;
  }
  auto before = last_.find(key);
  if (before == last_.end()) {
    if (last_.size() >= limits::kScrapeSeriesMax) {
      cut_ = true;  // not remembered, it would be counted anew each time
      return;
    }
    before = last_.emplace(key, Last{}).first;
  } else if (series.value < before->second.value) {
    before->second = {};  // resets_alone
  }
  Last& total = totals_[TargetOf(series)];
  if (IsHistogram(rule)) {
    AddGrowth(series.histogram, before->second.histogram, total.histogram);
  } else {
    total.value += (series.value - before->second.value) * rule.scale;
  }
  before->second = {series.value, series.histogram, series.role};
}

double EngineCounts::TotalOf(Row row) const {
  double sum = 0;
  for (const auto& [target, total] : totals_) {
    sum += std::get<Row>(target) == row ? total.value : 0;
  }
  return sum;
}

void EngineCounts::UpdateLoad(const Reading& reading, const std::map<Target, Mean>& gauges,
                              int64_t now_ns) {
  load_ = {};
  Mean usage;
  for (const auto& [target, mean] : gauges) {
    switch (std::get<Row>(target)) {
      case Row::kRunning:
        load_.running = load_.running.value_or(0) + std::max(0.0, mean.sum);
        break;
      case Row::kWaiting:
        load_.waiting = load_.waiting.value_or(0) + std::max(0.0, mean.sum);
        break;
      case Row::kKvUsage:
        usage.sum += mean.sum;
        usage.count += mean.count;
        break;
      default: break;
    }
  }
  if (usage.count > 0) {
    load_.kv_usage = usage.sum / static_cast<double>(usage.count);
  }
  if (reading.blocks) {
    load_.kv_blocks_total = CountOf(*reading.blocks);
  }
  const double prompt = TotalOf(Row::kPromptTokens) - TotalOf(Row::kPrefixHits);
  const double generated = TotalOf(Row::kGenerationTokens);
  if (taken_ns_ != 0 && now_ns > taken_ns_) {
    const double seconds =
        static_cast<double>(now_ns - taken_ns_) / static_cast<double>(kNsPerSecond);
    const auto has = [this](Row row) {
      return std::any_of(totals_.begin(), totals_.end(),
                         [row](const auto& entry) { return std::get<Row>(entry.first) == row; });
    };
    if (has(Row::kPromptTokens)) {
      load_.prefill_tokens_per_s = std::max(0.0, prompt - prompt_before_) / seconds;
    }
    if (has(Row::kGenerationTokens)) {
      load_.decode_tokens_per_s = std::max(0.0, generated - generated_before_) / seconds;
    }
  }
  taken_ns_ = now_ns;
  prompt_before_ = prompt;
  generated_before_ = generated;
}

std::vector<metrics::MirrorValue> EngineCounts::Values() const {
  std::vector<metrics::MirrorValue> values = gauges_;
  for (const auto& [target, total] : totals_) {
    const auto& [row, model, role, label] = target;
    values.push_back({row, model, role, label, total.value, total.histogram});
  }
  return values;
}

}  // namespace fak::ride

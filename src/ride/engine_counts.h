#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "metrics/mirror.h"
#include "metrics/text_format.h"
#include "ride/metric_map.h"

namespace fak::ride {

// What an engine says of its load, all its models together. Absent is not 0.
struct EngineLoad {
  std::optional<double> running;
  std::optional<double> waiting;
  std::optional<double> kv_usage;  // 0 to 1
  std::optional<uint64_t> kv_blocks_total;
  // Since the text before; prompt tokens without those found in the cache.
  std::optional<double> prefill_tokens_per_s;
  std::optional<double> decode_tokens_per_s;
};

// Turns one engine's expositions, taken one after the other, into rows of our schema. Counters and
// histograms go on from where they were when the engine restarts, and never fall: what counts is
// how much each of its series has grown. Series of one row are added up, apart from what the labels
// model and role tell apart; of kv_usage the mean is taken. Of series that differ in their tp_rank
// alone, which are copies, one is taken. Bounded by kScrapeSeriesMax, kMetricModelsMax and
// kMetricValuesMax. One thread.
class EngineCounts {
 public:
  // `model`, `role`: of series that don't say.
  EngineCounts(MetricMap map, std::string model, std::string role);

  // The engine's /metrics at `now_ns`. kDataCorrupt when it is no exposition, kPayloadTooLarge;
  // nothing changes then.
  [[nodiscard]] Status Take(std::string_view text, int64_t now_ns);

  std::vector<metrics::MirrorValue> Values() const;
  const EngineLoad& load() const { return load_; }
  // Roles by a worker's own id, as this engine says them of the workers behind it.
  using WorkerRoles = std::map<std::string, std::string, std::less<>>;
  const WorkerRoles& worker_roles() const { return roles_told_; }
  // What the router in front says, for series that don't say it themselves. Where a role turns out
  // to be another one, everything is counted anew.
  void SetWorkerRoles(WorkerRoles roles) { roles_ = std::move(roles); }
  // Series that were not counted for kScrapeSeriesMax.
  bool cut() const { return cut_; }

 private:
  enum class Piece : uint8_t { kWhole, kBucket, kSum, kCount };
  struct Source {
    size_t rule;
    Piece piece;
  };
  // A row's own label and choice, whose parts belong together.
  using Way = std::tuple<metrics::Row, std::string_view, uint8_t>;
  using Target = std::tuple<metrics::Row, std::string, std::string, std::string>;

  struct Series {
    size_t rule = 0;
    std::string model;
    std::string role;
    std::string label;
    std::string copies;  // series of the same rule that agree in this, model and role may be copies
    int64_t rank = 0;    // among them; the lowest counts
    double value = 0;
    metrics::HistogramValue histogram;
    std::map<double, uint64_t> buckets;  // of the histogram, while it is read
  };
  struct Last {
    double value = 0;
    metrics::HistogramValue histogram;
    std::string role;
  };
  struct Mean {
    double sum = 0;
    size_t count = 0;
  };
  // One text's series, by rule and labels.
  struct Reading {
    std::unordered_map<std::string, Series> series;
    std::set<std::string, std::less<>> helped;  // families whose HELP has the rule's word
    std::optional<double> start_time;
    std::optional<double> blocks;
    WorkerRoles roles;              // that it tells
    std::set<std::string> workers;  // whose it is: two stand for any more
    bool cut = false;
  };

  void TakeHelp(std::string_view name, std::string_view help, Reading& reading) const;
  void TakeSample(const metrics::TextSample& sample, Reading& reading) const;
  static void TakeRole(const metrics::TextSample& sample, Reading& reading);
  void AddPiece(const metrics::TextSample& sample, Source source, Reading& reading) const;
  Series NewSeries(const metrics::TextSample& sample, const MetricRule& rule, size_t index) const;
  std::string RoleOfAll(const Reading& reading) const;
  bool RolesChanged(const Reading& reading) const;
  bool Restarted(const Reading& reading) const;
  std::set<Way> ChosenWays(const Reading& reading) const;
  void DropUncounted(Reading& reading) const;
  void Count(const std::string& key, const Series& series, std::map<Target, Mean>& gauges);
  Target TargetOf(const Series& series);
  void UpdateLoad(const Reading& reading, const std::map<Target, Mean>& gauges, int64_t now_ns);
  double TotalOf(metrics::Row row) const;

  const MetricMap map_;
  const std::string model_;
  const std::string role_;
  std::map<std::string, std::vector<Source>, std::less<>> sources_;  // by a sample's name
  std::unordered_map<std::string, Last> last_;                       // of counters, by series
  WorkerRoles roles_told_;                                           // by this engine
  WorkerRoles roles_;                                                // by its router
  std::optional<double> start_time_;
  std::set<std::string> models_;
  std::map<metrics::Row, std::set<std::string>> labels_;
  std::map<Target, Last> totals_;
  std::vector<metrics::MirrorValue> gauges_;
  EngineLoad load_;
  int64_t taken_ns_ = 0;
  double prompt_before_ = 0;
  double generated_before_ = 0;
  bool cut_ = false;
};

}  // namespace fak::ride

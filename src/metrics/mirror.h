#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "metrics/schema.h"

namespace fak::metrics {

// A histogram as somebody else has counted it.
struct HistogramValue {
  std::vector<double> bounds;        // ascending, finite: the last bucket, +Inf, is `count`
  std::vector<uint64_t> cumulative;  // one a bound: observations at or below it
  uint64_t count = 0;
  double sum = 0;
};

// One row's value of one model and role.
struct MirrorValue {
  Row row = Row::kRunning;
  std::string model;
  std::string role;
  std::string label;  // value of the row's own label, where it has one
  double value = 0;   // gauges and counters
  HistogramValue histogram;
};

// What an engine counted of itself, as it was last seen: rows of one worker that are shown beside
// those that we count. Gauges and engine_up speak of now and age: beyond their time they vanish,
// and engine_up is 0. Counters and histograms stay. Any thread.
class Mirror {
 public:
  // `values` replace those before. They are fresh until then (Clock::NowNs); 0: they never were.
  void Show(std::vector<MirrorValue> values, int64_t fresh_until_ns);
  // The engine doesn't answer: counters stay, gauges go.
  void Down();
  // Nothing is known: no row at all.
  void Clear();

  struct Shown {
    bool known = false;
    bool up = false;
    std::vector<MirrorValue> values;
  };
  Shown At(int64_t now_ns) const;

 private:
  mutable std::mutex mutex_;
  bool known_ = false;
  int64_t fresh_until_ns_ = 0;
  std::vector<MirrorValue> values_;
};

}  // namespace fak::metrics

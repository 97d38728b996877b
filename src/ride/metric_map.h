#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "metrics/schema.h"

// Which of an engine's own metrics make which row of our schema. docs/metrics.md has the tables for
// people, with the versions that they were read from.
namespace fak::ride {

// A test of one label of a series. An absent label has the value "".
struct LabelTest {
  std::string_view label = {};  // empty: always true
  std::string_view value = {};
  bool equal = true;  // false: any other value
};

struct MetricRule {
  // Name of a sample; of a histogram without _bucket, _sum and _count.
  std::string_view family;
  metrics::Row row = metrics::Row::kRunning;
  // An engine may offer several ways to a row: the lowest choice counts of which all parts are
  // there. Parts are added, series are added.
  uint8_t choice = 0;
  uint8_t part = 0;
  double scale = 1;
  std::array<LabelTest, 2> tests = {};
  // Value of the row's own label; "*": as the series has it.
  std::string_view label = {};
  // Only where the family's HELP has this word: names that have changed their unit.
  std::string_view help_has = {};
  // Falls back to 0 without a restart of the engine.
  bool resets_alone = false;
};

struct MetricMap {
  std::vector<MetricRule> rules;  // empty: the engine has no metrics, it isn't asked for any
  // An info family whose label has the number of KV blocks; empty: none.
  std::string_view blocks_family = {};
  std::string_view blocks_label = {};
  // Label with the model's name, where it is neither model_name nor model.
  std::string_view model_label = {};
  // A family with a series for each worker behind a router, whose worker_id is a number that the
  // worker itself writes in hex, and whose worker_type is its role; empty: none.
  std::string_view roles_family = {};
};

// By the engine's name in ReplicaSpec ("vllm", "sglang", "llamacpp", "dynamo", "llmd", "mlx",
// "fak"); any other has no rules.
MetricMap MetricMapOf(std::string_view engine);

}  // namespace fak::ride

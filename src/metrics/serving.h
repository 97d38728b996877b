#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "metrics/goodput.h"
#include "metrics/mirror.h"

// The one schema: every engine, ridden or native, is shown under these names (fak_serving_*), with
// the same units and buckets. docs/metrics.md lists them. A metric that a source doesn't have is
// absent, never 0.
namespace fak::metrics {

struct Labels {
  std::string worker = {};  // name of the replica
  std::string engine = {};  // "fak", "vllm" ...
  std::string model = {};
  std::string role = "aggregated";  // or "prefill", "decode"
  std::string source = "native";    // or "engine" (scraped), "gateway"; never summed over
};

enum class Latency : uint8_t {
  kTimeToFirstToken,
  kTimePerOutputToken,  // of a whole request, without its first token
  kInterToken,
  kEndToEnd,
  kQueue,
};
enum class Tokens : uint8_t { kPrompt, kGeneration };  // of a request, when it ends
enum class Gauge : uint8_t { kRunning, kWaiting, kKvUsage, kEngineUp };
enum class Counter : uint8_t {
  kPromptTokens,
  kGenerationTokens,
  kPrefixQueries,  // tokens looked up
  kPrefixHits,     // tokens found
  kPreemptions,
  kUnknownFields,
  kSpecDraftTokens,
  kSpecAcceptedTokens,
  kKvEventBatches,
  kKvBlocksStored,   // as KV events told
  kKvBlocksRemoved,  // the same
  kKvEventResets,
  kKvEventGaps,
  kKvEventReplays,
  kKvEventReplaysFailed,
  kKvEventsDropped,
  kGenerationProbes,  // of ours, to see whether it answers
  kGenerationProbesFailed,
};

class Registry;

// The rows of one set of labels: each appears with its first value, and goes with the last emitter
// and mirror of its worker. Any thread; a value costs one uncontended lock.
class Emitter {
 public:
  ~Emitter();
  void Observe(Latency what, double seconds);
  void Observe(Tokens what, double tokens);
  void Set(Gauge what, double value);
  void Add(Counter what, double amount);
  void CountRequest(std::string_view outcome);     // "ok", "error", "cancelled"
  void CountError(std::string_view kind);          // CodeName() of the error
  void CountLimitRefusal(std::string_view limit);  // of a key: "requests", "tokens" ...
  void CountMigration(std::string_view outcome);   // "ok", "error"
  // Of a successful request: counts the objectives that it met.
  void CountGoodput(const RequestTimes& times);

 private:
  friend class Registry;
  struct Impl;
  explicit Emitter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// All rows of the process. Any thread. Must outlive its emitters. The clock, and the objectives
// that requests are measured against, are set once.
class Registry {
 public:
  explicit Registry(std::vector<Slo> slos = {}, const Clock& clock = Clock::Real());
  ~Registry();
  // Of one time, workers beyond kMetricWorkersMax are "other".
  std::shared_ptr<Emitter> MakeEmitter(const Labels& labels);
  // Rows that an engine counts itself; shown as long as the mirror lives. `labels` without model
  // and role, which the values have. Those of workers beyond kMetricWorkersMax are not shown.
  std::shared_ptr<Mirror> MakeMirror(const Labels& labels);
  // Prometheus text exposition, version 0.0.4.
  std::string Exposition() const;

 private:
  friend struct Emitter::Impl;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fak::metrics

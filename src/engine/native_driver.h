#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"
#include "driver/engine_driver.h"
#include "engine/loader.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/step_observer.h"
#include "kv/block_pool.h"
#include "kv/event_log.h"
#include "kv/prefix_tree.h"
#include "metrics/serving.h"

namespace fak::engine {

struct NativeDriverOptions {
  std::vector<std::string> served_names;
  // Choices of requests inside the engine at once, waiting or running; what doesn't fit beside them
  // is refused (kResourceExhausted), and what never would (kInvalidArgument).
  size_t sequences_max = limits::kAdmitQueueMax;
  StepObserver* maybe_observer = nullptr;  // outlives the driver
};

// Our own engine as a driver. Admit() checks a turn on the caller's thread and hands it over; one
// engine thread owns sequences and KV and runs steps; sinks are called from it. Not started, it is
// stepped by its owner (tests, the bench in process).
class NativeDriver final : public driver::EngineDriver,
                           public driver::CacheControl,
                           public driver::KvEventSource {
 public:
  // clock, random and maybe_metrics must outlive the driver.
  NativeDriver(LoadedEngine engine, NativeDriverOptions options, const Clock& clock,
               RandomSource& random, std::shared_ptr<metrics::Emitter> maybe_metrics);
  ~NativeDriver() override;

  std::shared_ptr<const driver::Capabilities> capabilities() const override {
    return capabilities_;
  }
  driver::LoadReport Load() const override;
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override;
  void Cancel(std::string_view request_id) override;
  bool Step() override;
  Status Start() override;
  void Drain(std::function<void()> done) override;
  void Stop() override;
  std::shared_ptr<const text::ModelCard> maybe_card() const override { return engine_.card; }
  driver::CacheControl* maybe_cache_control() override { return this; }
  void Evict(driver::EvictRequest request,
             std::function<void(std::vector<driver::EvictOutcome>)> done) override;
  driver::KvEventSource* maybe_kv_events() override { return this; }
  // A batch for each step that changed the prefix cache, and for each eviction; numbered from 0,
  // all of generation 0. A block is named by its kv::BlockKey().
  void Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) override;

  // For the owner of a driver that was not started (verify, tests), between steps.
  LoadedEngine& engine() { return engine_; }
  // Null when there is no such request, or not any more. A request that was admitted is there after
  // the next Step().
  const Request* Find(std::string_view request_id) const;
  // Stops, and hands the engine over to another driver. This one can only be destroyed then.
  LoadedEngine TakeEngine();
  kv::PrefixTree& tree() { return tree_; }
  kv::BlockPool& pool() { return pool_; }
  uint64_t preemptions() const { return scheduler_.preemptions(); }

 private:
  struct CancelCommand {
    std::string request_id;
  };
  struct EvictCommand {
    driver::EvictRequest request;
    std::function<void(std::vector<driver::EvictOutcome>)> done;
  };
  using Command = std::variant<std::unique_ptr<Request>, CancelCommand, EvictCommand>;

  struct Planned {  // a slice and where its logit rows are
    Request* request;
    Choice* choice;
    uint32_t rows;
    uint32_t first_logit;
    uint32_t logits;
    bool samples;
  };

  void Run();
  bool RunStep();
  void DrainInbox();
  void Accept(std::unique_ptr<Request> request);
  void Handle(const CancelCommand& command);
  void Handle(EvictCommand& command);
  void FailOverdue();
  void BuildStep(std::span<const Slice> slices);
  void Observe();
  // It begins; before any other event of it.
  void TellStarted(Request& request, const Choice& first);
  void Process(const tensor::StepOutput& output);
  void ScorePrompt(const Planned& planned, std::span<const tensor::SampleResult> samples);
  void FinishPrompt(Request& request, Choice& choice);
  void TakeSample(Request& request, Choice& choice, const tensor::SampleResult& sample);
  void EndChoice(Request& request, Choice& choice, wire::Finish finish);
  void EndRequest(Request& request);
  void FailRequest(Request& request, Error error, bool keep_kv);
  void ForgetEnded();
  void Forget(Request& request);
  void Leave(size_t sequences);
  void Publish();
  void TellKvEvents();

  LoadedEngine engine_;
  const NativeDriverOptions options_;
  const Clock& clock_;
  RandomSource& random_;
  const std::shared_ptr<metrics::Emitter> maybe_metrics_;
  std::shared_ptr<const driver::Capabilities> capabilities_;
  kv::BlockPool pool_;
  kv::EventLog kv_log_;
  kv::PrefixTree tree_;
  Scheduler scheduler_;

  // Engine thread.
  std::unordered_map<std::string, std::unique_ptr<Request>> requests_;
  std::unordered_map<const Sequence*, std::pair<Request*, Choice*>> owners_;
  std::vector<Request*> ended_;           // forgotten after the step
  int64_t next_deadline_ns_ = INT64_MAX;  // no request has an earlier one
  uint64_t arrivals_ = 0;
  uint64_t preemptions_seen_ = 0;
  std::function<void(const wire::KvEventBatch&)> on_kv_batch_;  // set before the thread starts
  uint64_t kv_batches_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<tensor::SequenceRows> rows_;
  std::vector<uint32_t> logit_rows_;
  std::vector<tensor::SampleSpec> specs_;
  std::vector<Planned> planned_;
  std::vector<StepSlice> observed_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::vector<Command> inbox_;  // bounded by sequences_max admissions; cancels name one of them
  size_t open_requests_ = 0;
  size_t open_sequences_ = 0;
  driver::LoadReport load_;
  std::vector<std::function<void()>> drained_;
  bool draining_ = false;
  bool stopping_ = false;
  bool started_ = false;
  std::thread thread_;
};

}  // namespace fak::engine

#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "driver/engine_driver.h"
#include "fleet/dispatcher.h"
#include "fleet/model_router.h"

namespace fak::fleet {

struct FleetMember {
  ReplicaOptions options;
  std::unique_ptr<driver::EngineDriver> driver;
};

struct FleetOptions {
  std::unique_ptr<RoutingPolicy> policy;
  DispatchOptions dispatch = {};
  ReplicaHealth::Options health = {};
};

// Several drivers as one. A request goes to a replica that serves its model and surface: of the
// healthy ones to that which the policy chooses, else of the suspect, of those that asked to be
// left alone, of those that are down; to none that drains. Where it fails and nothing was passed on
// to the client it goes to another one, within a budget, if that may cure it (failure.h). From the
// first content on it stays, and an error is the client's, unless streams are to be resumed
// (DispatchOptions): then one of the same artifact goes on with it, where the engines can.
//
// A fleet of one asks it for anything, and tries nothing again.
//
// Replicas come and go while it serves. One that goes gets nothing new, ends what it has, and is
// taken apart, with all that is known of it, when that is done.
//
// Any thread. A thread of its own looks at the replicas several times a second (Dispatcher::Tick).
class FleetDriver final : public driver::EngineDriver,
                          public driver::CacheControl,
                          public driver::SleepControl,
                          public driver::SlotControl,
                          public driver::RemoteTokenizer {
 public:
  // Members of different names, none of which was started: it listens to their KV events. Clock
  // and random outlive the driver.
  FleetDriver(std::vector<FleetMember> members, FleetOptions options, const Clock& clock,
              RandomSource& random);
  ~FleetDriver() override;

  // Of all: models together, what one of them can do; the smallest context.
  std::shared_ptr<const driver::Capabilities> capabilities() const override;
  driver::LoadReport Load() const override;
  std::vector<driver::WorkerLoad> WorkerLoads() const override;
  // kNotFound: everybody says what he serves, and it isn't that. kResourceExhausted: all have as
  // many requests as they may.
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override {
    return models_.Admit(std::move(prepared), std::move(sink));
  }
  void Cancel(std::string_view request_id) override { models_.Cancel(request_id); }
  Status Start() override;
  void Drain(std::function<void()> done) override;
  void Stop() override;
  std::shared_ptr<const text::ModelCard> maybe_card() const override;
  driver::CacheControl* maybe_cache_control() override { return this; }
  driver::SleepControl* maybe_sleep_control() override { return this; }
  driver::SlotControl* maybe_slot_control() override { return this; }
  driver::RemoteTokenizer* maybe_tokenizer() override;

  void Evict(driver::EvictRequest request,
             std::function<void(std::vector<driver::EvictOutcome>)> done) override;
  void SetAsleep(driver::SleepRequest request,
                 std::function<void(std::vector<driver::SleepOutcome>)> done) override;
  void ActOnSlot(driver::SlotRequest request,
                 std::function<void(std::vector<driver::SlotOutcome>)> done) override;
  void Tokenize(std::string model, std::string text,
                std::function<void(Result<std::vector<int32_t>>)> done) override;

  // What that member is asked for, as clients name it. Before: what it lists.
  void SetModels(std::string_view name, std::vector<std::string> models);
  // One more, started once the fleet is. kAlreadyExists: its name is taken. kUnavailable: the fleet
  // has stopped.
  [[nodiscard]] Status AddReplica(FleetMember member);
  // In the place of the one of its name, which leaves. kNotFound.
  [[nodiscard]] Status ReplaceReplica(FleetMember member);
  // kNotFound.
  [[nodiscard]] Status RemoveReplica(std::string_view name);
  // As of ReplicaOptions; nothing where nobody is called that.
  void SetShare(std::string_view name, double weight, int32_t max_concurrency);
  // It is suspect at best, for this reason; empty: no more. Nothing where nobody is called that.
  void SetDoubt(std::string_view name, std::string why);
  // A replica that drains gets no new request, and ends those that it has. kNotFound: nobody is
  // called that.
  [[nodiscard]] Status DrainReplica(std::string_view name) {
    return dispatcher_.SetDraining(name, true);
  }
  [[nodiscard]] Status UndrainReplica(std::string_view name) {
    return dispatcher_.SetDraining(name, false);
  }
  FleetStatus Describe() const { return dispatcher_.Describe(); }
  Explanation Explain(const std::shared_ptr<const driver::Prepared>& prepared) {
    return dispatcher_.Explain(models_.First(prepared));
  }
  // What clients may ask for beside what replicas list, from now on.
  void SetModelTable(ModelTable table) { models_.SetTable(std::move(table)); }
  std::shared_ptr<const ModelTable> model_table() const { return models_.table(); }
  std::vector<ModelStatus> DescribeModels() const { return models_.Describe(); }
  // What its thread does, for a driver that was not started.
  void Tick() { dispatcher_.Tick(); }

 private:
  // At the first of them; where it fails for its own fault, at the next.
  static void TokenizeAtFirst(std::vector<std::shared_ptr<FleetReplica>> replicas,
                              std::string model, std::string text,
                              std::function<void(Result<std::vector<int32_t>>)> done);
  // At those that serve that model, under its own name.
  void EvictModel(const driver::EvictRequest& request,
                  std::function<void(std::vector<driver::EvictOutcome>)> done);
  void Run();
  // Makes it and starts it, if the fleet is; with changing_ held.
  Result<std::shared_ptr<FleetReplica>> MakeReplica(FleetMember member);

  const ReplicaHealth::Options health_;
  Dispatcher dispatcher_;
  ModelRouter models_;

  std::mutex changing_;   // one change of who is in it at a time
  bool started_ = false;  // guarded by changing_
  bool stopped_ = false;  // the same

  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fak::fleet

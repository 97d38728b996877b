#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/unique_function.h"
#include "driver/engine_driver.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/timer_wheel.h"
#include "ride/adapter.h"
#include "ride/probe.h"
#include "ride/request_edit.h"
#include "ride/spec_options.h"
#include "ride/upstream_kv_events.h"
#include "ride/upstream_meter.h"

namespace fak::ride {

class UpstreamRequest;

struct UpstreamOptions {
  net::HttpTimeouts timeouts = {};
  net::TlsClientOptions tls = {};
  int probe_every_ms = 0;  // how often it is asked whether it's there; 0: as its adapter says
  size_t connections_max = limits::kUpstreamConnectionsMax;  // for clients' requests
  int call_ms = limits::kProbeTimeoutMs;                     // UpstreamTarget's
  int tail_ms = limits::kUpstreamTailMs;                     // of requests
  metrics::Registry* maybe_metrics = nullptr;  // outlives the driver; null: nothing is measured
  int scrape_every_ms = 5000;  // how often the engine is asked for its metrics; 0: never
  // Of engines that cost nobody money, how often one is asked for a token that nothing else comes
  // from, and how long it has for that; 0: never. spec.options may say otherwise for any engine.
  int generation_probe_every_ms = kGenerationProbeIntervalS * 1000;
  int generation_probe_timeout_ms = kGenerationProbeTimeoutS * 1000;
  // That clients' requests run on, so that no chunk changes threads on its way; outlives the
  // driver. Null: the driver's own.
  net::EventLoop* maybe_request_loop = nullptr;
};

// An engine behind a URL as a driver, whichever of adapter.h's it is: sends the client's own
// document with only the edits of docs/engines.md, passes chunks on as they come, turns failures
// into typed errors. Cancelling closes the upstream's connection, and tells engines that want to be
// told. Sinks are called from the loop of requests; probes and scrapes run on a loop of its own,
// where what takes long, like reading an engine's metrics, holds up no stream.
//
// Where spec.options say where it publishes KV events, it is a source of those (maybe_kv_events):
// read from Start() on, whether anybody has subscribed or not, and counted.
//
// With the engine "auto" it is probed first, and nothing is admitted before that is known: what a
// client may not set differs between engines. After it was away it is probed again.
class UpstreamDriver final : public driver::EngineDriver,
                             public driver::CacheControl,
                             public driver::SleepControl,
                             public driver::SlotControl,
                             public driver::RemoteTokenizer,
                             public driver::GenerationProbe {
 public:
  // spec.engine: a name of AdapterNames(), "auto" or empty. spec.options: null or a table of
  // allow_fields, allow_headers (lists of names), data_parallel_rank, kv_events (a list of
  // ParseKvEventEndpoint()'s texts), generation_probe_interval and generation_probe_timeout (in
  // seconds). kInvalidArgument says what of it is wrong, with the member as its field.
  [[nodiscard]] static Status Check(const driver::ReplicaSpec& spec);
  // Of a spec that passes Check().
  [[nodiscard]] static Result<std::unique_ptr<UpstreamDriver>> Make(const driver::ReplicaSpec& spec,
                                                                    UpstreamOptions options);
  ~UpstreamDriver() override;

  std::shared_ptr<const driver::Capabilities> capabilities() const override;
  driver::LoadReport Load() const override;
  std::vector<driver::WorkerLoad> WorkerLoads() const override;
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override;
  bool CanContinue(const driver::Prepared& prepared) const override;
  void Cancel(std::string_view request_id) override;
  Status Start() override;
  void Drain(std::function<void()> done) override;
  void Stop() override;
  driver::CacheControl* maybe_cache_control() override { return this; }
  driver::SleepControl* maybe_sleep_control() override { return this; }
  driver::SlotControl* maybe_slot_control() override { return this; }
  driver::RemoteTokenizer* maybe_tokenizer() override;
  driver::KvEventSource* maybe_kv_events() override { return kv_events_.get(); }
  driver::GenerationProbe* maybe_generation_probe() override { return this; }

  void Evict(driver::EvictRequest request,
             std::function<void(std::vector<driver::EvictOutcome>)> done) override;
  void SetAsleep(driver::SleepRequest request,
                 std::function<void(std::vector<driver::SleepOutcome>)> done) override;
  void ActOnSlot(driver::SlotRequest request,
                 std::function<void(std::vector<driver::SlotOutcome>)> done) override;
  void Tokenize(std::string model, std::string text,
                std::function<void(Result<std::vector<int32_t>>)> done) override;
  driver::GenerationProbing generation_probing() const override;
  void ProbeGeneration(int extra_ms, std::function<void(Status)> done) override;

  const std::string& name() const { return spec_.name; }
  // How often it is asked whether it is there. Any thread.
  int probe_every_ms() const;
  // Names of our own that requests may come with, for `model` where the engine lists it; without a
  // model, for the only one that the engine lists. Capabilities have them while that holds. A name
  // that the engine lists itself stays that model's. Any thread.
  void StandFor(std::vector<std::string> names, std::string model);
  // What the last probe found; null before one has succeeded. Any thread.
  std::shared_ptr<const Endpoint> endpoint() const;
  // For programs that start: waits until the first probe has ended, well or not, or until the time
  // is over. kUnavailable: it has, and nothing was found, which is in the log. kDeadlineExceeded.
  // Not on a loop.
  [[nodiscard]] Result<std::shared_ptr<const Endpoint>> WaitForProbe(int wait_ms) const;

 private:
  friend class UpstreamRequest;
  using Answered = std::function<void(Result<Replies>)>;
  // A call of ours that the operator wanted, and what came of it.
  struct Operated {
    std::string call;  // "POST /wake_up"
    Reply reply;       // of status 200
  };
  struct Chore {
    std::unique_ptr<CallSequence> calls;
    Answered done;
  };

  UpstreamDriver(driver::ReplicaSpec spec, UpstreamTarget target, SpecOptions said,
                 const Adapter* maybe_adapter, UpstreamOptions options);
  static Status CheckMetricsUrls(const driver::ReplicaSpec& spec);
  const Adapter* adapter() const;
  const std::string& key() const { return target_.api_key; }

  // Thread of the own loop.
  void StartProbe();
  void OnProbed(Result<Endpoint> found);
  void CheckHealth();
  void OnHealth(const Replies& replies);
  void SetDown(std::string why);
  bool IsUp() const {
    const std::lock_guard lock(mutex_);
    return up_;
  }
  // Any thread: a request found nobody to connect to. No other goes there before a probe has.
  void OnUnreachable(std::string why);
  // With the mutex held. `why` names the upstream.
  void NoteDown(std::string why);
  void UpdateModels(std::vector<std::string> listed, driver::Capabilities capabilities);
  std::string OwnNamesModel() const;  // what they stand for; empty: nothing at present
  // Whether requests for a model, as clients name it, may be meant for this one: it lists the
  // model, or none at all.
  bool MayServe(const std::string& model) const;
  // What the engine calls it.
  std::string NameThere(const std::string& model) const;
  // The model to put into a request; empty: what the client's document has is right.
  std::string ModelToAskFor(const Adapter& engine, const driver::Prepared& prepared) const;
  // An error of the connection under the upstream's name instead of its address, which is nothing
  // for clients.
  Error Named(Error error) const;
  void StartScraping(const Adapter& adapter);
  // Makes calls of our own; `done` gets the replies, or kUnavailable when the driver stops first.
  void Ask(const Adapter& adapter, std::vector<Call> calls, Answered done,
           std::function<bool(const Call&, const Reply&)> stop_when = nullptr) {
    AskAt(target_, adapter, std::move(calls), std::move(done), std::move(stop_when));
  }
  void AskAt(const UpstreamTarget& target, const Adapter& adapter, std::vector<Call> calls,
             Answered done, std::function<bool(const Call&, const Reply&)> stop_when = nullptr);

  // Thread of the request loop.
  void Open(const driver::Prepared& prepared, std::shared_ptr<UpstreamRequest> open,
            net::HttpClientRequest request);
  void Forget(std::string request_id);
  // Ends a request with this error; unknown ids are ignored.
  void End(std::string request_id, Error error);

  // Any thread. Runs it on the request loop; false, and nothing, once the driver has stopped: a
  // loop that isn't its own lives on.
  bool PostRequest(UniqueFunction<void()> task);
  // Any thread. Makes the call that `make` names, which may take long, then looks whether it is
  // ready; `done` gets what came of it, or why not.
  void Operate(const std::function<Result<Call>(const Endpoint&)>& make,
               std::function<void(Result<Operated>)> done);
  // Any thread. kUnsupported: there is nothing to ask for.
  Result<Call> GenerationCall(const Endpoint& known) const;
  Status ReadGeneration(const Adapter& engine, const Reply& reply) const;
  // Any thread.
  void TellAbort(const Adapter& adapter, const std::string& id);

  const driver::ReplicaSpec spec_;
  const UpstreamTarget target_;
  const UpstreamPolicy policy_;
  const Adapter* const maybe_adapter_;  // that the operator has named
  const UpstreamOptions options_;
  const std::optional<int> generation_probe_every_s_;  // this one's own
  const int generation_probe_timeout_ms_;
  std::optional<UpstreamMeter> meter_;           // before the loop: requests end on it
  std::unique_ptr<UpstreamKvEvents> kv_events_;  // null: nobody said where
  net::EventLoop loop_;                          // its own
  net::EventLoop& request_loop_;

  // Thread of the request loop.
  std::unique_ptr<net::HttpClient> client_;
  std::unordered_map<std::string, std::shared_ptr<UpstreamRequest>> open_;
  std::vector<std::function<void()>> drained_;

  // Thread of the own loop.
  // For calls of our own: they don't wait for clients' requests, however many these are.
  std::unique_ptr<net::HttpClient> calls_client_;
  std::unique_ptr<net::Timer> probe_timer_;
  std::unique_ptr<Prober> prober_;
  std::map<uint64_t, Chore> chores_;
  uint64_t chore_ids_ = 0;

  std::atomic<bool> draining_{false};
  std::atomic<int32_t> running_{0};
  mutable std::mutex mutex_;  // guards the members below
  mutable std::condition_variable probed_;
  std::shared_ptr<const driver::Capabilities> capabilities_;
  std::vector<std::string> listed_;  // models, as the engine names them
  std::vector<std::string> own_names_;
  std::string own_names_model_;  // empty: the only one listed
  std::shared_ptr<const Endpoint> maybe_endpoint_;
  bool up_ = false;
  bool probe_ended_ = false;  // once
  std::string why_down_;      // names the upstream, and not its address
  bool started_ = false;
  bool stopped_ = false;  // nothing is posted to the request loop any more
};

}  // namespace fak::ride

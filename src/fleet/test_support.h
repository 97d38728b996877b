#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/fleet_driver.h"

// For tests of fleets only: replicas that do what a test says, and a client that remembers.
namespace fak::fleet::test {

// Takes requests and does nothing by itself; the test plays the engine.
class ScriptedReplica final : public driver::EngineDriver,
                              public driver::CacheControl,
                              public driver::SleepControl,
                              public driver::RemoteTokenizer,
                              public driver::GenerationProbe {
 public:
  struct Open {
    std::shared_ptr<const driver::Prepared> prepared;
    std::shared_ptr<driver::EventSink> sink;
  };

  explicit ScriptedReplica(std::string name, std::vector<std::string> models = {"m"})
      : name_(std::move(name)), models_(std::move(models)) {}

  std::shared_ptr<const driver::Capabilities> capabilities() const override {
    auto capabilities = std::make_shared<driver::Capabilities>();
    const std::lock_guard lock(mutex_);
    capabilities->engine = "scripted";
    capabilities->models = models_;
    capabilities->artifact = artifact_;
    capabilities->continues_exactly = exactly_;
    return capabilities;
  }
  bool CanContinue(const driver::Prepared&) const override { return true; }
  driver::LoadReport Load() const override {
    const std::lock_guard lock(mutex_);
    driver::LoadReport report;
    report.ready = ready_;
    report.why_not = ready_ ? "" : name_ + " is away";
    report.in_flight = static_cast<int32_t>(open_.size());
    return report;
  }
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override {
    std::function<Status(const Open&)> on_admit;
    Open open{std::move(prepared), std::move(sink)};
    {
      const std::lock_guard lock(mutex_);
      ++admitted_;
      on_admit = on_admit_;
    }
    if (on_admit) {
      TRY(on_admit(open));
    }
    const std::lock_guard lock(mutex_);
    open_.push_back(std::move(open));
    return {};
  }
  void Cancel(std::string_view id) override {
    {
      const std::lock_guard lock(mutex_);
      cancelled_.emplace_back(id);
      if (cancels_later_) {
        return;
      }
    }
    End(std::string(id), wire::Failed{{Code::kCancelled, "cancelled"}});
  }
  Status Start() override { return {}; }
  void Drain(std::function<void()> done) override {
    SetReady(false);
    done();
  }
  void Stop() override {
    while (const auto open = TakeAny()) {
      open->sink->OnEvent(wire::Failed{{Code::kUnavailable, "stopped"}});
    }
  }
  driver::CacheControl* maybe_cache_control() override { return evicts_ ? this : nullptr; }
  driver::SleepControl* maybe_sleep_control() override { return this; }
  void Evict(driver::EvictRequest request,
             std::function<void(std::vector<driver::EvictOutcome>)> done) override {
    const bool meant = request.model.empty() || request.model == models_.front();
    done(meant ? std::vector<driver::EvictOutcome>{{name_, driver::EvictReport{}, true}}
               : std::vector<driver::EvictOutcome>());
  }
  void SetAsleep(driver::SleepRequest request,
                 std::function<void(std::vector<driver::SleepOutcome>)> done) override {
    const bool meant = request.worker.empty() || request.worker == name_;
    done(meant ? std::vector<driver::SleepOutcome>{{name_, std::string("slept")}}
               : std::vector<driver::SleepOutcome>());
  }

  driver::RemoteTokenizer* maybe_tokenizer() override { return this; }
  // Gives the first byte of its name; away, an error.
  void Tokenize(std::string /*model*/, std::string /*text*/,
                std::function<void(Result<std::vector<int32_t>>)> done) override {
    bool answers = false;
    {
      const std::lock_guard lock(mutex_);
      answers = ready_;
    }
    done(answers ? Result<std::vector<int32_t>>(std::vector<int32_t>{name_.front()})
                 : Fail(Code::kUnavailable, name_ + " is away"));
  }

  driver::GenerationProbe* maybe_generation_probe() override { return this; }
  driver::GenerationProbing generation_probing() const override {
    const std::lock_guard lock(mutex_);
    return probing_;
  }
  void ProbeGeneration(int extra_ms, std::function<void(Status)> done) override {
    const std::lock_guard lock(mutex_);
    ++probes_;
    extra_ms_ = extra_ms;
    probed_ = std::move(done);
  }
  // How it wants to be asked for a token of our own; by default never.
  void SetProbing(driver::GenerationProbing probing) {
    const std::lock_guard lock(mutex_);
    probing_ = probing;
  }
  int probes() const {
    const std::lock_guard lock(mutex_);
    return probes_;
  }
  int extra_ms() const {
    const std::lock_guard lock(mutex_);
    return extra_ms_;
  }
  // Ends the one that it was asked for.
  void EndProbe(Status answered) {
    std::function<void(Status)> done;
    {
      const std::lock_guard lock(mutex_);
      done = std::exchange(probed_, nullptr);
    }
    if (done) {
      done(std::move(answered));
    }
  }

  // What Admit() does before the request is open.
  void OnAdmit(std::function<Status(const Open&)> on_admit) {
    const std::lock_guard lock(mutex_);
    on_admit_ = std::move(on_admit);
  }
  void SetReady(bool ready) {
    const std::lock_guard lock(mutex_);
    ready_ = ready;
  }
  void SetModels(std::vector<std::string> models) {
    const std::lock_guard lock(mutex_);
    models_ = std::move(models);
  }
  // To the request that is open there, the oldest; nothing where there is none.
  void Emit(wire::Event event) {
    std::shared_ptr<driver::EventSink> sink;
    {
      const std::lock_guard lock(mutex_);
      sink = open_.empty() ? nullptr : open_.front().sink;
    }
    if (sink != nullptr) {
      sink->OnEvent(std::move(event));
    }
  }
  // Ends a request with this; the oldest where no id is given. Whether there was one.
  bool End(const std::string& id, wire::Event event) {
    const auto open = id.empty() ? TakeAny() : Take(id);
    if (open) {
      open->sink->OnEvent(std::move(event));
    }
    return open.has_value();
  }
  // From now on a cancel waits for TakeCancels(), as in a driver with a thread of its own.
  void CancelLater() {
    const std::lock_guard lock(mutex_);
    cancels_later_ = true;
  }
  void TakeCancels() {
    for (const std::string& id : Cancels()) {
      End(id, wire::Failed{{Code::kCancelled, "cancelled"}});
    }
  }
  void Answer() {
    Emit(wire::TextDelta{0, name_, {}, {}});
    Emit(wire::Finish{});
    End("", wire::Done{});
  }
  size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }
  int admitted() const {
    const std::lock_guard lock(mutex_);
    return admitted_;
  }
  std::vector<std::string> cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }
  // To the oldest open request, all at once: what the next `count` of its answer's tokens are, from
  // `first` on, each under its number, then the end where `finish` says so.
  void Say(int first, int count, bool finish = false) {
    for (int i = first; i < first + count; ++i) {
      Emit(wire::RawChunk{R"({"id":")" + name_ + R"(","created":)" + std::to_string(1000 + i) +
                          R"(,"seed":7,"choices":[]})"});
      Emit(wire::TextDelta{0, std::to_string(i) + " ", {i}, {}});
    }
    if (finish) {
      Emit(wire::Finish{});
      Emit(wire::UsageReport{{.prompt_tokens = 5, .completion_tokens = first + count}});
      End("", wire::Done{});
    }
  }
  // What it was asked last.
  std::shared_ptr<const driver::Prepared> asked() const {
    const std::lock_guard lock(mutex_);
    return open_.empty() ? nullptr : open_.back().prepared;
  }
  // Of the oldest open request.
  std::shared_ptr<driver::EventSink> sink() const {
    const std::lock_guard lock(mutex_);
    return open_.empty() ? nullptr : open_.front().sink;
  }
  // What Capabilities say of it; set before the replica is used.
  std::string artifact_ = "artifact";
  bool exactly_ = true;
  // Expired: it was taken apart.
  std::weak_ptr<const int> life() const { return life_; }
  bool evicts_ = true;  // set before the replica is used

 private:
  std::vector<std::string> Cancels() {
    const std::lock_guard lock(mutex_);
    return std::exchange(cancelled_, {});
  }
  std::optional<Open> TakeAny() {
    const std::lock_guard lock(mutex_);
    if (open_.empty()) {
      return std::nullopt;
    }
    Open taken = std::move(open_.front());
    open_.erase(open_.begin());
    return taken;
  }
  std::optional<Open> Take(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(), [&id](const Open& open) {
      return open.prepared->request_id == id;
    });
    if (found == open_.end()) {
      return std::nullopt;
    }
    Open taken = std::move(*found);
    open_.erase(found);
    return taken;
  }

  const std::shared_ptr<const int> life_ = std::make_shared<int>();
  const std::string name_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<std::string> models_;
  bool ready_ = true;
  driver::GenerationProbing probing_;
  int probes_ = 0;
  int extra_ms_ = 0;
  std::function<void(Status)> probed_;
  std::function<Status(const Open&)> on_admit_;
  std::vector<Open> open_;
  int admitted_ = 0;
  std::vector<std::string> cancelled_;
  bool cancels_later_ = false;
};

// A client: what it was told.
class RecordingSink final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (ends_ > 0) {
      ++after_end_;
    }
    ends_ +=
        std::holds_alternative<wire::Done>(event) || std::holds_alternative<wire::Failed>(event)
            ? 1
            : 0;
    events_.push_back(std::move(event));
  }
  void BeginBatch() noexcept override { ++batches_; }
  void EndBatch() noexcept override { --batches_; }
  void OnPlaced(const driver::Placement& placement) override {
    const std::lock_guard lock(mutex_);
    workers_.emplace_back(placement.worker);
    resumed_ = placement.resumed;
    why_ = placement.why;
    if (on_placed_) {
      on_placed_();
    }
  }

  std::vector<std::string> workers() const {
    const std::lock_guard lock(mutex_);
    return workers_;
  }
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }
  int resumed() const {
    const std::lock_guard lock(mutex_);
    return resumed_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const wire::Event& event : events_) {
      if (const auto* delta = std::get_if<wire::TextDelta>(&event)) {
        text += delta->text;
      }
    }
    return text;
  }
  template <class Kind>
  std::vector<Kind> All() const {
    const std::lock_guard lock(mutex_);
    std::vector<Kind> all;
    for (const wire::Event& event : events_) {
      if (const Kind* kind = std::get_if<Kind>(&event)) {
        all.push_back(*kind);
      }
    }
    return all;
  }
  // How it failed; CHECKs that it did.
  Error failure() const {
    const auto all = All<wire::Failed>();
    CHECK(all.size() == 1);
    return all.front().error;
  }
  int ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }
  int after_end() const {
    const std::lock_guard lock(mutex_);
    return after_end_;
  }
  int open_batches() const { return batches_; }
  std::function<void()> on_placed_;  // set before the request is admitted

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::vector<wire::Event> events_;
  std::vector<std::string> workers_;
  std::string why_;
  int resumed_ = 0;
  int ends_ = 0;
  int after_end_ = 0;
  int batches_ = 0;
};

// The fewest requests, of equals the first.
class InOrder final : public RoutingPolicy {
 public:
  std::string_view name() const override { return "in_order"; }
  std::unique_ptr<RoutingPolicy> Copy() const override { return std::make_unique<InOrder>(); }
  RouteChoice Choose(const RouteTurn&, std::span<const ReplicaView> replicas,
                     RandomSource&) override {
    RouteChoice choice{.index = 0, .why = "in order", .compared = {}};
    for (size_t i = 0; i < replicas.size(); ++i) {
      choice.compared.push_back({replicas[i].id, static_cast<double>(replicas[i].in_flight),
                                 replicas[i].backlog_tokens, replicas[i].cached_tokens});
      if (replicas[i].in_flight < replicas[choice.index].in_flight) {
        choice.index = i;
      }
    }
    return choice;
  }
};

inline std::shared_ptr<driver::Prepared> MakePrepared(const std::string& id,
                                                      const std::string& model = "m") {
  auto prepared = std::make_shared<driver::Prepared>();
  auto turn = std::make_shared<wire::Turn>();
  turn->model = model;
  turn->stream = true;
  prepared->request_id = id;
  prepared->turn = turn;
  prepared->prompts.push_back({.text = std::string(400, 'x'), .tokens = {}, .unit_keys = {}});
  return prepared;
}

}  // namespace fak::fleet::test

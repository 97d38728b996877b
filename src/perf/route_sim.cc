#include "perf/route_sim.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/limits.h"
#include "base/random.h"
#include "fleet/load_estimate.h"
#include "fleet/residency_index.h"
#include "perf/route_baselines.h"

namespace fak::perf {
namespace {

enum class EventKind { kStepEnd, kArrival, kReport };

struct Event {
  int64_t at_us = 0;
  uint64_t number = 0;  // of equal times the one that was made first
  EventKind kind = EventKind::kStepEnd;
  size_t replica = 0;    // kStepEnd, kReport
  size_t gateway = 0;    // kReport
  size_t request = 0;    // kArrival
  uint64_t version = 0;  // kStepEnd: an older one than the replica's was cut short

  bool operator<(const Event& other) const {  // the soonest on top of a priority queue
    return std::tuple(at_us, number) > std::tuple(other.at_us, other.number);
  }
};

// A gateway's own view of the fleet.
struct Gateway {
  Gateway(uint64_t seed, size_t replicas, size_t pairs_max)
      : random(seed), index(pairs_max, random), loads(replicas) {}

  FakeRandom random;
  fleet::ResidencyIndex index;
  std::vector<fleet::LoadEstimate> loads;
  std::unique_ptr<Placer> placer;
};

struct Placement {
  size_t gateway = 0;
  size_t replica = 0;
  int64_t arrived_us = 0;
  int64_t expected_uncached = 0;
  int64_t ttft_us = 0;
};

class Simulation {
 public:
  Simulation(const RouteTrace& trace, const RouteSim& sim)
      : trace_(trace), sim_(sim), random_(sim.seed), placements_(trace.requests.size()) {
    const auto blocks = static_cast<size_t>(sim.engine.kv_blocks);
    for (size_t i = 0; i < sim.gateways; ++i) {
      // Twice what there can be: what was routed and not yet stored counts too. Without events no
      // more than there can be, so that what is forgotten there is forgotten here.
      gateways_.push_back(std::make_unique<Gateway>(
          random_.Next64(), sim.replicas, (sim.kv_events ? 2 : 1) * blocks * sim.replicas));
    }
    for (size_t i = 0; i < sim.replicas; ++i) {
      replicas_.emplace_back(sim.engine, trace.requests);
      names_.push_back("replica-" + std::to_string(i));
      ids_.push_back(static_cast<fleet::ReplicaId>(i));
    }
    versions_.resize(sim.replicas);
  }

  Status UsePolicy(std::string_view policy) {
    for (const auto& gateway : gateways_) {
      TRY_ASSIGN(gateway->placer, MakePlacer(policy, gateway->random));
    }
    return {};
  }

  RouteResult Run();

 private:
  void Push(Event event) {
    event.number = ++pushed_;
    events_.push(event);
  }
  void StartReports();
  void OnArrival(size_t request);
  void OnStepEnd(size_t replica);
  void OnReport(size_t gateway, size_t replica);
  void StartStep(size_t replica);
  void TellChanges(size_t replica);
  int64_t ReportGap();
  RouteResult Summary() const;

  const RouteTrace& trace_;
  const RouteSim& sim_;
  FakeRandom random_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  std::deque<SimReplica> replicas_;
  std::vector<std::string> names_;
  std::vector<fleet::ReplicaId> ids_;
  std::vector<uint64_t> versions_;
  std::priority_queue<Event> events_;
  uint64_t pushed_ = 0;
  int64_t now_us_ = 0;
  size_t ended_ = 0;
  std::vector<Placement> placements_;
  double wrong_by_ = 0;  // sum of |expected − cached| ÷ prompt
};

// What one cache with all the fleet's blocks would leave to compute.
int64_t OfferedTokens(const RouteTrace& trace, const RouteSim& sim) {
  SimCache cache(sim.engine.kv_blocks * static_cast<int64_t>(sim.replicas));
  std::vector<uint64_t> evicted;
  int64_t tokens = 0;
  for (const TraceRequest& request : trace.requests) {
    const auto cached = static_cast<int64_t>(cache.Match(request.keys)) * kTraceBlockTokens;
    tokens += std::max<int64_t>(1, request.prompt_tokens - cached);
    CHECK(cache.Hold(request.keys, 0, evicted)) << "a request has more blocks than the fleet";
    cache.Release(request.keys, 0);
    evicted.clear();
  }
  return tokens;
}

// Some share of an interval that is uniform around 1.
int64_t Simulation::ReportGap() {
  const double unit = static_cast<double>(random_.Next64() >> 11) * 0x1p-53;
  const double factor = 1 + sim_.report_jitter * (2 * unit - 1);
  return std::max<int64_t>(1, std::llround(static_cast<double>(sim_.report_us) * factor));
}

void Simulation::StartReports() {
  if (sim_.report_us == 0) {
    return;
  }
  for (size_t gateway = 0; gateway < sim_.gateways; ++gateway) {
    for (size_t replica = 0; replica < sim_.replicas; ++replica) {
      const auto phase =
          static_cast<int64_t>(random_.Next64() % static_cast<uint64_t>(sim_.report_us));
      Push({.at_us = phase, .kind = EventKind::kReport, .replica = replica, .gateway = gateway});
    }
  }
}

RouteResult Simulation::Run() {
  const double offered_us = static_cast<double>(OfferedTokens(trace_, sim_)) * 1e6 /
                            static_cast<double>(sim_.engine.prefill_tokens_per_s) /
                            static_cast<double>(sim_.replicas) / sim_.load;
  const double stretch = offered_us / static_cast<double>(trace_.duration_us());
  for (size_t i = 0; i < trace_.requests.size(); ++i) {
    const double at_us = static_cast<double>(trace_.requests[i].at_us) * stretch;
    Push({.at_us = std::llround(at_us), .kind = EventKind::kArrival, .request = i});
  }
  StartReports();
  while (ended_ < trace_.requests.size()) {
    const Event event = events_.top();
    events_.pop();
    now_us_ = event.at_us;
    switch (event.kind) {
      case EventKind::kArrival: OnArrival(event.request); break;
      case EventKind::kStepEnd:
        if (event.version == versions_[event.replica]) {
          OnStepEnd(event.replica);
        }
        break;
      case EventKind::kReport: OnReport(event.gateway, event.replica); break;
    }
  }
  return Summary();
}

void Simulation::OnArrival(size_t number) {
  const TraceRequest& request = trace_.requests[number];
  Placement& placement = placements_[number];
  placement.gateway = sim_.gateways == 1 ? 0 : random_.Next64() % sim_.gateways;
  placement.arrived_us = now_us_;
  Gateway& gateway = *gateways_[placement.gateway];
  const std::vector<uint32_t> matches = gateway.index.Match(request.keys, ids_);
  std::vector<fleet::ReplicaView> views;
  for (size_t i = 0; i < sim_.replicas; ++i) {
    views.push_back({.id = ids_[i],
                     .name = names_[i],
                     .backlog_tokens = gateway.loads[i].backlog_tokens(now_us_),
                     .in_flight = gateway.loads[i].in_flight(),
                     .cached_tokens = std::min(int64_t{matches[i]} * kTraceBlockTokens,
                                               request.prompt_tokens - 1)});
  }
  placement.replica = gateway.placer->Place(request, views);
  placement.expected_uncached = request.prompt_tokens - views[placement.replica].cached_tokens;
  gateway.loads[placement.replica].Place(now_us_, placement.expected_uncached);
  gateway.index.Add(ids_[placement.replica], request.keys);
  SimReplica& replica = replicas_[placement.replica];
  replica.Submit(number);
  if (!replica.busy()) {
    StartStep(placement.replica);
  } else if (const auto end_us = replica.CutShort(now_us_)) {
    Push({.at_us = *end_us,
          .replica = placement.replica,
          .version = ++versions_[placement.replica]});
  }
}

void Simulation::StartStep(size_t replica) {
  if (const auto end_us = replicas_[replica].Next(now_us_)) {
    Push({.at_us = *end_us, .replica = replica, .version = ++versions_[replica]});
  }
  TellChanges(replica);
}

void Simulation::OnStepEnd(size_t number) {
  std::vector<SimReplica::Ended> ended;
  replicas_[number].Finish(ended);
  TellChanges(number);
  for (const SimReplica::Ended& part : ended) {
    Placement& placement = placements_[part.request];
    Gateway& gateway = *gateways_[placement.gateway];
    if (!part.whole) {
      placement.ttft_us = now_us_ - placement.arrived_us;
      gateway.loads[number].Prefilled(now_us_, placement.expected_uncached);
      const auto wrong = std::abs(placement.expected_uncached - part.uncached_tokens);
      wrong_by_ += static_cast<double>(wrong) /
                   static_cast<double>(trace_.requests[part.request].prompt_tokens);
      continue;
    }
    ++ended_;
    gateway.loads[number].End();
    if (sim_.kv_events) {
      gateway.index.DropUnconfirmed(ids_[number], trace_.requests[part.request].keys);
    }
  }
  StartStep(number);
}

void Simulation::TellChanges(size_t number) {
  for (const SimReplica::Change& change : replicas_[number].TakeChanges()) {
    if (!sim_.kv_events) {
      continue;
    }
    const fleet::ReplicaId id = ids_[number];
    for (const auto& gateway : gateways_) {
      if (!change.stored) {
        for (const uint64_t key : change.keys) {
          gateway->index.Remove(id, std::span(&key, 1));
        }
        continue;
      }
      const std::span<const uint64_t> keys = trace_.requests[change.request].keys;
      for (size_t i = change.first; i < keys.size(); ++i) {
        const auto after = i == 0 ? std::nullopt : std::optional(keys[i - 1]);
        gateway->index.Confirm(id, after, keys.subspan(i, 1));
      }
    }
  }
}

void Simulation::OnReport(size_t gateway, size_t replica) {
  gateways_[gateway]->loads[replica].Report(replicas_[replica].backlog_tokens(),
                                            replicas_[replica].in_flight());
  Push({.at_us = now_us_ + ReportGap(),
        .kind = EventKind::kReport,
        .replica = replica,
        .gateway = gateway});
}

RouteResult Simulation::Summary() const {
  RouteResult result;
  std::vector<int64_t> times_us;
  double sum_us = 0;
  for (const Placement& placement : placements_) {
    times_us.push_back(placement.ttft_us);
    sum_us += static_cast<double>(placement.ttft_us);
    const std::array<uint64_t, 3> words = {placement.gateway, placement.replica,
                                           static_cast<uint64_t>(placement.ttft_us)};
    result.digest = Xxh3(BytesOf(std::span<const uint64_t>(words)), result.digest);
  }
  std::sort(times_us.begin(), times_us.end());
  const auto quantile_ms = [&](double q) {
    const double rank = std::ceil(q * static_cast<double>(times_us.size())) - 1;
    return static_cast<double>(times_us[static_cast<size_t>(std::max(0.0, rank))]) / 1000;
  };
  int64_t computed = 0;
  int64_t most = 0;
  for (const SimReplica& replica : replicas_) {
    computed += replica.computed_tokens();
    most = std::max(most, replica.computed_tokens());
  }
  const auto requests = static_cast<double>(placements_.size());
  const auto replicas = static_cast<double>(sim_.replicas);
  result.requests = static_cast<int64_t>(placements_.size());
  result.ttft_mean_ms = sum_us / requests / 1000;
  result.ttft_p50_ms = quantile_ms(0.5);
  result.ttft_p99_ms = quantile_ms(0.99);
  result.hit_rate = 1 - static_cast<double>(computed) / static_cast<double>(trace_.prompt_tokens());
  result.busy = static_cast<double>(computed) * 1e6 /
                static_cast<double>(sim_.engine.prefill_tokens_per_s) / replicas /
                static_cast<double>(now_us_);
  result.spread = static_cast<double>(most) * replicas / static_cast<double>(computed);
  result.predicted = wrong_by_ / requests;
  return result;
}

Status Check(const RouteTrace& trace, const RouteSim& sim) {
  if (sim.replicas < 1 || sim.gateways < 1 || !(sim.load > 0)) {
    return Fail(Code::kInvalidArgument, "a fleet needs a replica, a gateway and a load above 0");
  }
  for (const TraceRequest& request : trace.requests) {
    if (SimBlocks(request) > sim.engine.kv_blocks) {
      return Fail(Code::kInvalidArgument,
                  "a request of " + std::to_string(request.prompt_tokens) + " and " +
                      std::to_string(request.output_tokens) + " tokens needs " +
                      std::to_string(SimBlocks(request)) + " blocks, and a replica has " +
                      std::to_string(sim.engine.kv_blocks));
    }
  }
  return {};
}

}  // namespace

Result<RouteResult> SimulateRouting(const RouteTrace& trace, const RouteSim& sim,
                                    std::string_view policy) {
  TRY(Check(trace, sim));
  Simulation simulation(trace, sim);
  TRY(simulation.UsePolicy(policy));
  RouteResult result = simulation.Run();
  result.policy = policy;
  return result;
}

Result<RouteSim> ReadRouteSim(const ConfigTable& file) {
  RouteSim sim;
  const auto read_int = [](const ConfigTable& table, std::string_view key, int64_t least,
                           int64_t& value) -> Status {
    TRY_ASSIGN(const std::optional<int64_t> given, table.Int(key));
    if (given && (*given < least || *given > 1'000'000'000'000)) {
      return Fail(table.ErrorAt(key, "must be at least " + std::to_string(least)));
    }
    value = given.value_or(value);
    return {};
  };
  TRY(file.RefuseUnknownKeys({"engine", "gateway", "grid"}));
  TRY_ASSIGN(const std::optional<ConfigTable> engine, file.Table("engine"));
  if (engine) {
    TRY(engine->RefuseUnknownKeys({"prefill-tokens-per-s", "step-us", "sequence-us", "step-tokens",
                                   "sequences-max", "kv-blocks"}));
    TRY(read_int(*engine, "prefill-tokens-per-s", 1, sim.engine.prefill_tokens_per_s));
    TRY(read_int(*engine, "step-us", 1, sim.engine.step_us));
    TRY(read_int(*engine, "sequence-us", 0, sim.engine.sequence_us));
    TRY(read_int(*engine, "sequences-max", 1, sim.engine.sequences_max));
    // Sequences that generate leave room for a prompt.
    TRY(read_int(*engine, "step-tokens", sim.engine.sequences_max + 1, sim.engine.step_tokens));
    TRY(read_int(*engine, "kv-blocks", 1, sim.engine.kv_blocks));
  }
  TRY_ASSIGN(const std::optional<ConfigTable> gateway, file.Table("gateway"));
  if (gateway) {
    TRY(gateway->RefuseUnknownKeys({"kv-events", "report-us", "report-jitter"}));
    TRY_ASSIGN(const std::optional<bool> events, gateway->Bool("kv-events"));
    sim.kv_events = events.value_or(sim.kv_events);
    TRY(read_int(*gateway, "report-us", 0, sim.report_us));
    TRY_ASSIGN(const std::optional<double> jitter, gateway->Float("report-jitter"));
    if (jitter && !(*jitter >= 0 && *jitter <= 1)) {
      return Fail(gateway->ErrorAt("report-jitter", "must be from 0 to 1"));
    }
    sim.report_jitter = jitter.value_or(sim.report_jitter);
  }
  return sim;
}

}  // namespace fak::perf

// Twice the load that a fleet can bear, on the fleet code of production and a fake clock: how many
// requests still get their answer in time.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"
#include "fleet/fleet_driver.h"

namespace fak::fleet {
namespace {

constexpr double kServiceS = 4;  // mean
constexpr int kReplicas = 4;
constexpr int kSlots = 8;
constexpr double kCapacity = kReplicas * kSlots / kServiceS;  // requests a second

double Unit(RandomSource& random) {
  return (static_cast<double>(random.Next64() >> 11) + 0.5) / static_cast<double>(1ULL << 53);
}

// What happens when; of equal times the first to be told.
class Agenda {
 public:
  explicit Agenda(FakeClock& clock) : clock_(clock) {}
  void At(int64_t ns, std::function<void()> what) { due_.emplace(ns, std::move(what)); }
  void RunUntil(int64_t end_ns) {
    while (!due_.empty() && due_.begin()->first <= end_ns) {
      const auto next = due_.extract(due_.begin());
      clock_.AdvanceNs(std::max<int64_t>(0, next.key() - clock_.NowNs()));
      next.mapped()();
    }
  }

 private:
  FakeClock& clock_;
  std::multimap<int64_t, std::function<void()>> due_;
};

// Answers each request after the time that it takes, or fails it when its deadline comes first, as
// a ridden engine does. It has no queue of its own: the fleet sends it no more than its slots.
class SlotEngine final : public driver::EngineDriver {
 public:
  SlotEngine(Agenda& agenda, const Clock& clock, const std::map<std::string, int64_t>& takes_ns)
      : agenda_(agenda), clock_(clock), takes_ns_(takes_ns) {}

  std::shared_ptr<const driver::Capabilities> capabilities() const override {
    auto capabilities = std::make_shared<driver::Capabilities>();
    capabilities->models = {"m"};
    return capabilities;
  }
  driver::LoadReport Load() const override {
    driver::LoadReport report;
    report.ready = true;
    report.running = static_cast<int32_t>(open_.size());
    return report;
  }
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override {
    const std::string& id = prepared->request_id;
    const int64_t ends_ns = clock_.NowNs() + takes_ns_.at(id);
    const bool late = prepared->deadline_ns && *prepared->deadline_ns < ends_ns;
    open_.emplace(id, std::move(sink));
    EXPECT_LE(open_.size(), static_cast<size_t>(kSlots));
    agenda_.At(late ? *prepared->deadline_ns : ends_ns, [this, id, late] { End(id, late); });
    return {};
  }
  void Cancel(std::string_view id) override { open_.erase(std::string(id)); }
  Status Start() override { return {}; }
  void Drain(std::function<void()> done) override { done(); }
  void Stop() override { open_.clear(); }

 private:
  void End(const std::string& id, bool late) {
    const auto found = open_.extract(id);
    if (found.empty()) {
      return;
    }
    driver::EventSink& sink = *found.mapped();
    if (late) {
      sink.OnEvent(wire::Failed{{Code::kDeadlineExceeded, "too late"}});
      return;
    }
    sink.OnEvent(wire::TextDelta{0, "x", {}, {}});
    sink.OnEvent(wire::Finish{});
    sink.OnEvent(wire::Done{});
  }

  Agenda& agenda_;
  const Clock& clock_;
  const std::map<std::string, int64_t>& takes_ns_;
  std::map<std::string, std::shared_ptr<driver::EventSink>> open_;
};

struct Counts {
  int64_t offered = 0;
  int64_t answered = 0;      // in time
  int64_t refused = 0;       // at once
  int64_t shed = 0;          // while it waited
  int64_t late = 0;          // its deadline came
  double retry_after_s = 0;  // mean, of what was refused
};

// Counts what ends from a time on, whenever it began: else what waits at the end would be missing.
class CountingSink final : public driver::EventSink {
 public:
  CountingSink(Counts& counts, const Clock& clock, int64_t from_ns)
      : counts_(counts), clock_(clock), from_ns_(from_ns) {}
  void OnEvent(wire::Event&& event) noexcept override {
    if (clock_.NowNs() < from_ns_) {
      return;
    }
    counts_.answered += std::holds_alternative<wire::Done>(event) ? 1 : 0;
    if (const auto* failed = std::get_if<wire::Failed>(&event)) {
      (failed->error.code == Code::kDeadlineExceeded ? counts_.late : counts_.shed) += 1;
    }
  }

 private:
  Counts& counts_;
  const Clock& clock_;
  const int64_t from_ns_;
};

struct Overload {
  const char* about;
  double times;             // capacity, offered
  double deadline_s_least;  // uniform between the two
  double deadline_s_most;
  bool exponential;  // service times; else lognormal, sigma 0.5
};

class Simulation {
 public:
  Simulation(const Overload& overload, uint64_t seed) : overload_(overload), random_(seed) {
    std::vector<FleetMember> members;
    for (int i = 0; i < kReplicas; ++i) {
      members.push_back({{.name = "r" + std::to_string(i), .max_concurrency = kSlots},
                         std::make_unique<SlotEngine>(agenda_, clock_, takes_ns_)});
    }
    fleet_ = std::make_unique<FleetDriver>(
        std::move(members), FleetOptions{.policy = *MakeRoutingPolicy("least_loaded")}, clock_,
        random_);
  }

  Counts Run() {
    constexpr int64_t kWarmNs = 150 * kNsPerSecond;
    constexpr int64_t kEndNs = 450 * kNsPerSecond;
    const int64_t begin_ns = clock_.NowNs();
    Tick(begin_ns);
    Arrive(begin_ns, begin_ns + kWarmNs, begin_ns + kEndNs);
    agenda_.RunUntil(begin_ns + kEndNs);
    counts_.retry_after_s /= std::max<double>(1, static_cast<double>(counts_.refused));
    seconds_ = static_cast<double>(kEndNs - kWarmNs) / static_cast<double>(kNsPerSecond);
    fleet_->Stop();
    return counts_;
  }
  double Goodput(const Counts& counts) const {
    return static_cast<double>(counts.answered) / (kCapacity * seconds_);
  }

 private:
  void Tick(int64_t at_ns) {
    agenda_.At(at_ns, [this, at_ns] {
      fleet_->Tick();
      Tick(at_ns + 200 * kNsPerMs);
    });
  }
  void Arrive(int64_t at_ns, int64_t counted_from_ns, int64_t until_ns) {
    agenda_.At(at_ns, [=, this] {
      Offer(counted_from_ns);
      const double gap_s = -std::log(Unit(random_)) / (overload_.times * kCapacity);
      const int64_t next_ns = at_ns + static_cast<int64_t>(gap_s * 1e9);
      if (next_ns < until_ns) {
        Arrive(next_ns, counted_from_ns, until_ns);
      }
    });
  }
  double DrawService() {
    if (overload_.exponential) {
      return -std::log(Unit(random_)) * kServiceS;
    }
    constexpr double kSigma = 0.5;
    const double normal =
        std::sqrt(-2 * std::log(Unit(random_))) * std::cos(2 * M_PI * Unit(random_));
    return kServiceS * std::exp(kSigma * normal - kSigma * kSigma / 2);
  }
  void Offer(int64_t counted_from_ns) {
    const std::string id = std::to_string(++ids_);
    takes_ns_[id] = static_cast<int64_t>(DrawService() * 1e9);
    const double span = overload_.deadline_s_most - overload_.deadline_s_least;
    auto prepared = std::make_shared<driver::Prepared>();
    auto turn = std::make_shared<wire::Turn>();
    turn->model = "m";
    prepared->request_id = id;
    prepared->turn = turn;
    prepared->prompts.push_back({.text = std::string(400, 'x'), .tokens = {}, .unit_keys = {}});
    prepared->deadline_ns =
        clock_.NowNs() +
        static_cast<int64_t>((overload_.deadline_s_least + span * Unit(random_)) * 1e9);
    const Status admitted =
        fleet_->Admit(prepared, std::make_shared<CountingSink>(counts_, clock_, counted_from_ns));
    if (clock_.NowNs() >= counted_from_ns) {
      ++counts_.offered;
      counts_.refused += admitted ? 0 : 1;
      counts_.retry_after_s += admitted ? 0 : admitted.error().retry_after_s;
    }
  }

  const Overload overload_;
  FakeClock clock_;
  FakeRandom random_;
  Agenda agenda_{clock_};
  std::map<std::string, int64_t> takes_ns_;
  std::unique_ptr<FleetDriver> fleet_;
  Counts counts_;
  uint64_t ids_ = 0;
  double seconds_ = 1;
};

TEST(Overload, KeepsItsGoodput) {
  constexpr Overload kCases[] = {
      {"exponential, 30 s", 0.5, 30, 30, true},  {"exponential, 30 s", 1, 30, 30, true},
      {"exponential, 30 s", 2, 30, 30, true},    {"exponential, 30 s", 4, 30, 30, true},
      {"exponential, 20-60 s", 2, 20, 60, true}, {"lognormal, 12 s", 2, 12, 12, false},
      {"lognormal, 20 s", 2, 20, 20, false},     {"lognormal, 10-60 s", 2, 10, 60, false},
      {"lognormal, 120 s", 2, 120, 120, false},  {"lognormal, 30 s", 8, 30, 30, false},
  };
  std::printf("%-22s %5s %8s %8s %6s %6s %6s %11s\n", "service, deadline", "load", "goodput",
              "offered", "refused", "shed", "late", "retry-after");
  for (const Overload& each : kCases) {
    for (const uint64_t seed : {1, 2}) {
      Simulation simulation(each, seed);
      const Counts counts = simulation.Run();
      const double goodput = simulation.Goodput(counts);
      std::printf("%-22s %4.1fx %8.3f %8lld %6lld %6lld %6lld %10.1fs\n", each.about, each.times,
                  goodput, static_cast<long long>(counts.offered),
                  static_cast<long long>(counts.refused), static_cast<long long>(counts.shed),
                  static_cast<long long>(counts.late), counts.retry_after_s);
      EXPECT_GE(goodput, 0.9 * std::min(1.0, each.times)) << each.about << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace fak::fleet

#include "fleet/fleet_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "fleet/gathering.h"

namespace fak::fleet {
namespace {

void Add(driver::Capabilities& all, const driver::Capabilities& one) {
  if (one.engine != all.engine) {
    all.engine = "several";
    all.version.clear();
  }
  if (all.context_length == 0 ||
      (one.context_length > 0 && one.context_length < all.context_length)) {
    all.context_length = one.context_length;
  }
  all.native = all.native && one.native;
  all.exact = all.exact && one.exact;
  all.tool_calls = all.tool_calls && one.tool_calls;
  all.reasoning = all.reasoning && one.reasoning;
  all.grammars = all.grammars && one.grammars;
  all.images = all.images || one.images;
  all.token_ids = all.token_ids && one.token_ids;
  all.cancel_stops_engine = all.cancel_stops_engine && one.cancel_stops_engine;
  all.honours_cache_salt = all.honours_cache_salt && one.honours_cache_salt;
  all.honours_priority = all.honours_priority && one.honours_priority;
  all.embeddings = all.embeddings || one.embeddings;
  all.anthropic_wire = all.anthropic_wire || one.anthropic_wire;
  all.responses_wire = all.responses_wire || one.responses_wire;
  all.generate_wire = all.generate_wire || one.generate_wire;
  all.template_wire = all.template_wire || one.template_wire;
}

// One control call, made to every replica that has that side; `without` answers for the others.
template <class Outcome, class Control, class Request>
void AskAll(const std::shared_ptr<const Replicas>& replicas,
            Control* (driver::EngineDriver::*side)(),
            void (Control::*call)(Request, std::function<void(std::vector<Outcome>)>),
            const Request& request, std::function<void(std::vector<Outcome>)> done,
            const std::function<std::vector<Outcome>(const FleetReplica&)>& without) {
  if (replicas->list.empty()) {
    done({});
    return;
  }
  const auto take = Gathering<Outcome>::Of(replicas->list.size(), std::move(done));
  for (const auto& replica : replicas->list) {
    if (Control* control = (replica->driver().*side)()) {
      // Who is asked stays until it has answered.
      (control->*call)(
          request, [take, replica](std::vector<Outcome> outcomes) { take(std::move(outcomes)); });
    } else {
      take(without(*replica));
    }
  }
}

template <class Outcome>
std::vector<Outcome> NoOutcome(const FleetReplica&) {
  return {};
}

}  // namespace

FleetDriver::FleetDriver(std::vector<FleetMember> members, FleetOptions options, const Clock& clock,
                         RandomSource& random)
    : health_(options.health),
      dispatcher_(std::move(options.policy), options.dispatch, clock, random),
      models_(dispatcher_, clock) {
  for (FleetMember& member : members) {
    const Status added = AddReplica(std::move(member));
    CHECK(added) << added.error().detail;
  }
}

FleetDriver::~FleetDriver() {
  Stop();
}

std::shared_ptr<const driver::Capabilities> FleetDriver::capabilities() const {
  const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
  if (replicas->list.empty()) {
    return std::make_shared<const driver::Capabilities>();
  }
  const FleetReplica& first = *replicas->list.front();
  if (replicas->list.size() == 1) {
    return first.driver().capabilities();
  }
  auto all = std::make_shared<driver::Capabilities>(*first.driver().capabilities());
  all->models.clear();
  for (const auto& replica : replicas->list) {
    for (std::string& model : replica->models()) {
      if (std::find(all->models.begin(), all->models.end(), model) == all->models.end()) {
        all->models.push_back(std::move(model));
      }
    }
    Add(*all, *replica->driver().capabilities());
  }
  return all;
}

driver::LoadReport FleetDriver::Load() const {
  driver::LoadReport all;
  const auto add = [](auto& sum, const auto& one) {
    if (one) {
      sum = sum.value_or(0) + *one;
    }
  };
  const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
  if (replicas->list.empty()) {
    all.why_not = "there is no upstream at present";
  }
  for (const auto& replica : replicas->list) {
    const driver::LoadReport one = replica->driver().Load();
    add(all.in_flight, one.in_flight);
    add(all.running, one.running);
    add(all.waiting, one.waiting);
    add(all.backlog_tokens, one.backlog_tokens);
    add(all.kv_blocks_total, one.kv_blocks_total);
    add(all.kv_blocks_free, one.kv_blocks_free);
    add(all.prefill_tokens_per_s, one.prefill_tokens_per_s);
    add(all.decode_tokens_per_s, one.decode_tokens_per_s);
    if (replicas->list.size() == 1) {
      all.kv_usage = one.kv_usage;
    }
    const std::string why = replica->draining() ? replica->name() + " is drained" : one.why_not;
    all.ready = all.ready || (one.ready && !replica->draining());
    all.why_not += (all.why_not.empty() || why.empty() ? "" : "; ") + why;
  }
  if (all.ready) {
    all.why_not.clear();
  }
  return all;
}

std::vector<driver::WorkerLoad> FleetDriver::WorkerLoads() const {
  std::vector<driver::WorkerLoad> all;
  for (const auto& replica : dispatcher_.replicas()->list) {
    std::vector<driver::WorkerLoad> rows = replica->driver().WorkerLoads();
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  }
  return all;
}

Status FleetDriver::Start() {
  {
    const std::lock_guard changing(changing_);
    for (const auto& replica : dispatcher_.replicas()->list) {
      TRY(replica->driver().Start());
    }
    started_ = true;
  }
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !stopping_) {
    thread_ = std::thread([this] { Run(); });
  }
  return {};
}

Result<std::shared_ptr<FleetReplica>> FleetDriver::MakeReplica(FleetMember member) {
  if (stopped_) {
    return Fail(Code::kUnavailable, "the server is shutting down");
  }
  auto replica =
      dispatcher_.MakeReplica(std::move(member.options), std::move(member.driver), health_);
  if (started_) {
    TRY(replica->driver().Start());
  }
  return replica;
}

Status FleetDriver::AddReplica(FleetMember member) {
  const std::lock_guard changing(changing_);
  if (dispatcher_.replicas()->Find(member.options.name) != nullptr) {
    return Fail(Code::kAlreadyExists,
                "another upstream is called " + member.options.name + " already", "name");
  }
  TRY_ASSIGN(auto replica, MakeReplica(std::move(member)));
  return dispatcher_.roster().Add(std::move(replica));
}

Status FleetDriver::ReplaceReplica(FleetMember member) {
  const std::lock_guard changing(changing_);
  if (dispatcher_.replicas()->Find(member.options.name) == nullptr) {
    return Fail(Code::kNotFound, "no upstream has the name " + member.options.name, "name");
  }
  TRY_ASSIGN(auto replica, MakeReplica(std::move(member)));
  return dispatcher_.roster().Replace(std::move(replica));
}

Status FleetDriver::RemoveReplica(std::string_view name) {
  const std::lock_guard changing(changing_);
  return dispatcher_.roster().Remove(name);
}

void FleetDriver::Run() {
  constexpr std::chrono::milliseconds kEvery{200};
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    dispatcher_.Tick();
    lock.lock();
    wake_.wait_for(lock, kEvery, [this] { return stopping_; });
  }
}

void FleetDriver::Drain(std::function<void()> done) {
  dispatcher_.Drain([this, done = std::move(done)] {
    dispatcher_.Rest();
    const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
    if (replicas->list.empty()) {
      done();
      return;
    }
    const auto missing = std::make_shared<std::atomic<size_t>>(replicas->list.size());
    for (const auto& replica : replicas->list) {
      replica->driver().Drain([missing, done] {
        if (missing->fetch_sub(1) == 1) {
          done();
        }
      });
    }
  });
}

void FleetDriver::Stop() {
  dispatcher_.Stop();
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  wake_.notify_all();
  if (thread.joinable()) {
    thread.join();
  }
  const std::lock_guard changing(changing_);
  stopped_ = true;
  for (const auto& replica : dispatcher_.replicas()->list) {
    replica->driver().Stop();
  }
  for (const auto& replica : dispatcher_.roster().Leaving()) {
    replica->driver().Stop();
  }
}

void FleetDriver::SetModels(std::string_view name, std::vector<std::string> models) {
  if (const auto replica = dispatcher_.replicas()->Find(name)) {
    replica->SetModels(std::move(models));
  }
}

void FleetDriver::SetShare(std::string_view name, double weight, int32_t max_concurrency) {
  if (const auto replica = dispatcher_.replicas()->Find(name)) {
    replica->SetShare(weight, max_concurrency);
  }
}

void FleetDriver::SetDoubt(std::string_view name, std::string why) {
  if (const auto replica = dispatcher_.replicas()->Find(name)) {
    replica->SetDoubt(std::move(why));
  }
}

std::shared_ptr<const text::ModelCard> FleetDriver::maybe_card() const {
  const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
  return replicas->list.size() == 1 ? replicas->list.front()->driver().maybe_card() : nullptr;
}

// All that the name stands for, but for what only stands in.
void FleetDriver::Evict(driver::EvictRequest request,
                        std::function<void(std::vector<driver::EvictOutcome>)> done) {
  const std::vector<std::string> models = models_.table()->TargetsOf(request.model);
  const auto take = Gathering<driver::EvictOutcome>::Of(models.size(), std::move(done));
  for (const std::string& model : models) {
    driver::EvictRequest one = request;
    one.model = model;
    EvictModel(one, take);
  }
}

// Who can't be emptied says so, where the model may be his.
void FleetDriver::EvictModel(const driver::EvictRequest& request,
                             std::function<void(std::vector<driver::EvictOutcome>)> done) {
  const std::string model = request.model;
  const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
  AskAll<driver::EvictOutcome, driver::CacheControl>(
      replicas, &driver::EngineDriver::maybe_cache_control, &driver::CacheControl::Evict, request,
      [replicas, done = std::move(done)](std::vector<driver::EvictOutcome> outcomes) {
        for (const auto& replica : replicas->list) {
          const bool emptied = std::any_of(
              outcomes.begin(), outcomes.end(), [&replica](const driver::EvictOutcome& outcome) {
                return outcome.worker == replica->name() && outcome.report;
              });
          if (emptied) {
            Dispatcher::ForgetCacheOf(*replica);
          }
        }
        done(std::move(outcomes));
      },
      [model](const FleetReplica& replica) -> std::vector<driver::EvictOutcome> {
        if (!replica.ListsModel(model)) {
          return {};
        }
        return {{replica.name(), Fail(Code::kUnsupported, "it has no cache that can be emptied"),
                 false}};
      });
}

void FleetDriver::SetAsleep(driver::SleepRequest request,
                            std::function<void(std::vector<driver::SleepOutcome>)> done) {
  AskAll<driver::SleepOutcome, driver::SleepControl>(
      dispatcher_.replicas(), &driver::EngineDriver::maybe_sleep_control,
      &driver::SleepControl::SetAsleep, request, std::move(done), NoOutcome<driver::SleepOutcome>);
}

void FleetDriver::ActOnSlot(driver::SlotRequest request,
                            std::function<void(std::vector<driver::SlotOutcome>)> done) {
  AskAll<driver::SlotOutcome, driver::SlotControl>(
      dispatcher_.replicas(), &driver::EngineDriver::maybe_slot_control,
      &driver::SlotControl::ActOnSlot, request, std::move(done), NoOutcome<driver::SlotOutcome>);
}

driver::RemoteTokenizer* FleetDriver::maybe_tokenizer() {
  const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
  const auto& list = replicas->list;
  const bool any = std::any_of(list.begin(), list.end(), [](const auto& replica) {
    return replica->driver().maybe_tokenizer() != nullptr;
  });
  return any ? this : nullptr;
}

void FleetDriver::Tokenize(std::string model, std::string text,
                           std::function<void(Result<std::vector<int32_t>>)> done) {
  model = models_.table()->TargetsOf(model).front();
  const std::shared_ptr<const Replicas> replicas = dispatcher_.replicas();
  std::vector<std::shared_ptr<FleetReplica>> ready;
  std::vector<std::shared_ptr<FleetReplica>> others;
  const bool alone = replicas->list.size() == 1;
  for (const auto& replica : replicas->list) {
    if (replica->driver().maybe_tokenizer() != nullptr && (alone || replica->ListsModel(model))) {
      const bool well = replica->driver().Load().ready && !replica->draining();
      (well ? ready : others).push_back(replica);
    }
  }
  ready.insert(ready.end(), others.begin(), others.end());
  if (ready.empty()) {
    done(Fail(Code::kUnsupported, "no upstream with this model has a tokenizer to ask", "model"));
    return;
  }
  TokenizeAtFirst(std::move(ready), std::move(model), std::move(text), std::move(done));
}

void FleetDriver::TokenizeAtFirst(std::vector<std::shared_ptr<FleetReplica>> replicas,
                                  std::string model, std::string text,
                                  std::function<void(Result<std::vector<int32_t>>)> done) {
  const std::shared_ptr<FleetReplica> first = replicas.front();
  replicas.erase(replicas.begin());
  driver::RemoteTokenizer* const tokenizer = first->driver().maybe_tokenizer();
  auto take = [first, replicas = std::move(replicas), model, text,
               done = std::move(done)](Result<std::vector<int32_t>> tokens) mutable {
    if (tokens || tokens.error().upstream_status != 0 || replicas.empty()) {
      done(std::move(tokens));
      return;
    }
    TokenizeAtFirst(std::move(replicas), std::move(model), std::move(text), std::move(done));
  };
  if (tokenizer == nullptr) {
    take(Fail(Code::kUnavailable, "upstream " + first->name() + " has no tokenizer at present"));
    return;
  }
  tokenizer->Tokenize(model, text, std::move(take));
}

}  // namespace fak::fleet

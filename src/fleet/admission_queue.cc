#include "fleet/admission_queue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/clock.h"

namespace fak::fleet {
namespace {

constexpr double kWeightLeast = 1e-3;
constexpr size_t kServicesLeast = 16;   // before that nothing is said of how long answers take
constexpr double kMostAnswers = 0.9;    // of them, who comes is to have time for as long a one
constexpr double kEnoughAnswers = 0.8;  // who waits is dropped without the time for such a one

Error Busy(std::string why, int retry_after_s) {
  Error error{Code::kResourceExhausted, std::move(why)};
  error.retry_after_s = retry_after_s;
  return error;
}

}  // namespace

AdmissionQueue::Waiting::iterator AdmissionQueue::FindDisplaceable(const Entry& entry) {
  struct Group {
    double share = 0;  // requests over weight
    Waiting::iterator last;
  };
  std::map<std::pair<std::string_view, std::string_view>, Group> groups;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    Group& group = groups[{at->second.entry.tenant, at->second.entry.model}];
    group.share += 1 / std::max(at->second.entry.weight, kWeightLeast);
    group.last = at;
  }
  Group most{groups[{entry.tenant, entry.model}].share + 1 / std::max(entry.weight, kWeightLeast),
             waiting_.end()};
  for (const auto& [names, group] : groups) {
    most = group.share > most.share ? group : most;
  }
  return most.last;
}

Result<AdmissionQueue::Id> AdmissionQueue::Push(const Entry& entry, int64_t now_ns) {
  const bool full = waiting_.size() >= length_max_;
  const auto displaced = full ? FindDisplaceable(entry) : waiting_.end();
  if (full && displaced == waiting_.end()) {
    return Fail(Busy("every upstream with this model has as many requests as it may, and " +
                         std::to_string(waiting_.size()) + " wait already",
                     RetryAfterS(now_ns)));
  }
  const double start = std::max(virtual_now_, finish_[entry.tenant]);
  const Place place{entry.priority, start, ++ids_};
  const double rate = RateAt(now_ns);
  if (entry.deadline_ns && rate > 0) {
    const auto ahead = std::distance(waiting_.begin(), waiting_.lower_bound(place));
    const double wait_ns = static_cast<double>(ahead + 1) / rate * kNsPerSecond;
    const int64_t given_ns = *entry.deadline_ns - now_ns;
    const int64_t margin_ns = entry.begun ? 0 : MarginNs(kMostAnswers, given_ns);
    if (wait_ns > static_cast<double>(given_ns - margin_ns)) {
      return Fail(
          Busy("every upstream has as many requests as it may, and this one would wait "
               "longer than it may take",
               RetryAfterS(now_ns)));
    }
  }
  if (full) {
    displaced_ = displaced->first.id;
    Erase(displaced);
  }
  finish_[entry.tenant] = start + entry.cost / std::max(entry.weight, kWeightLeast);
  waiting_.emplace(place, Waiter{entry, now_ns});
  places_.emplace(place.id, place);
  return place.id;
}

std::optional<AdmissionQueue::Id> AdmissionQueue::Pop(FunctionRef<bool(Id)> fits) {
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const Place place = at->first;
    if (fits(place.id)) {
      virtual_now_ = std::max(virtual_now_, place.start);
      popped_.clear();
      popped_.emplace(place, std::move(at->second));
      Erase(at);
      return place.id;
    }
  }
  return std::nullopt;
}

// Where nobody was left to wait all is forgotten: then it sets the time, and owes what it owed.
bool AdmissionQueue::PutBack(Id id) {
  if (popped_.empty() || popped_.begin()->first.id != id) {
    return false;
  }
  const auto& [place, waiter] = *popped_.begin();
  const Entry& entry = waiter.entry;
  virtual_now_ = std::max(virtual_now_, place.start);
  double& finish = finish_[entry.tenant];
  finish = std::max(finish, place.start + entry.cost / std::max(entry.weight, kWeightLeast));
  places_.emplace(place.id, place);
  waiting_.merge(popped_);
  return true;
}

void AdmissionQueue::Erase(Waiting::iterator at) {
  places_.erase(at->first.id);
  waiting_.erase(at);
  if (waiting_.empty()) {  // whoever comes now owes nothing
    finish_.clear();
    virtual_now_ = 0;
  }
}

bool AdmissionQueue::Remove(Id id) {
  const auto found = places_.find(id);
  if (found == places_.end()) {
    return false;
  }
  Erase(waiting_.find(found->second));
  return true;
}

std::vector<AdmissionQueue::Id> AdmissionQueue::TakeOverdue(int64_t now_ns) {
  std::vector<Id> overdue;
  for (const auto& [place, waiter] : waiting_) {
    if (waiter.entry.deadline_ns && *waiter.entry.deadline_ns <= now_ns) {
      overdue.push_back(place.id);
    }
  }
  for (const Id id : overdue) {
    Remove(id);
  }
  return overdue;
}

std::vector<AdmissionQueue::Id> AdmissionQueue::TakeHopeless(int64_t now_ns) {
  std::vector<Id> hopeless;
  for (const auto& [place, waiter] : waiting_) {
    if (!waiter.entry.deadline_ns || waiter.entry.begun) {
      continue;
    }
    const int64_t deadline_ns = *waiter.entry.deadline_ns;
    if (deadline_ns - now_ns < MarginNs(kEnoughAnswers, deadline_ns - waiter.since_ns)) {
      hopeless.push_back(place.id);
    }
  }
  if (hopeless.size() == waiting_.size()) {
    return {};
  }
  for (const Id id : hopeless) {
    Remove(id);
  }
  return hopeless;
}

void AdmissionQueue::NoteService(int64_t took_ns) {
  service_ns_[services_++ % service_ns_.size()] = took_ns;
}

int64_t AdmissionQueue::ServiceNs(double q) const {
  const size_t known = std::min(services_, service_ns_.size());
  if (known < kServicesLeast) {
    return 0;
  }
  std::array<int64_t, std::tuple_size_v<decltype(service_ns_)>> sorted = service_ns_;
  const auto at = std::min(static_cast<size_t>(q * static_cast<double>(known)), known - 1);
  const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(sorted.begin(), nth, sorted.begin() + static_cast<std::ptrdiff_t>(known));
  return *nth;
}

int64_t AdmissionQueue::MarginNs(double q, int64_t given_ns) const {
  return std::min(ServiceNs(q), given_ns / 2);
}

void AdmissionQueue::NoteEnd(int64_t now_ns) {
  const int64_t number = now_ns / kNsPerSecond;
  Slice& slice = slices_[static_cast<size_t>(number) % slices_.size()];
  if (slice.number != number) {
    slice = {.number = number};
  }
  ++slice.ended;
}

// Over the seconds from the first end in the window to now.
double AdmissionQueue::RateAt(int64_t now_ns) const {
  const int64_t number = now_ns / kNsPerSecond;
  int64_t ended = 0;
  int64_t oldest = number;
  for (const Slice& slice : slices_) {
    if (slice.number > number - static_cast<int64_t>(slices_.size())) {
      ended += slice.ended;
      oldest = slice.ended > 0 ? std::min(oldest, slice.number) : oldest;
    }
  }
  const double seconds =
      static_cast<double>(now_ns - oldest * kNsPerSecond) / static_cast<double>(kNsPerSecond);
  return static_cast<double>(ended) / std::max(seconds, 1.0);
}

int AdmissionQueue::RetryAfterS(int64_t now_ns) const {
  constexpr double kMostS = 60;
  const double rate = RateAt(now_ns);
  const double wait_s = rate > 0 ? static_cast<double>(waiting_.size() + 1) / rate : 1;
  return static_cast<int>(std::clamp(std::ceil(wait_s), 1.0, kMostS));
}

}  // namespace fak::fleet

#include "fleet/roster.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>

namespace fak::fleet {
namespace {

std::shared_ptr<const Replicas> Of(std::vector<std::shared_ptr<FleetReplica>> list) {
  auto replicas = std::make_shared<Replicas>();
  for (const auto& replica : list) {
    replicas->ids.push_back(replica->id());
  }
  replicas->list = std::move(list);
  return replicas;
}

}  // namespace

std::shared_ptr<FleetReplica> Replicas::Find(std::string_view name) const {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [name](const auto& each) { return each->name() == name; });
  return found == list.end() ? nullptr : *found;
}

Roster::Roster() : now_(std::make_shared<Replicas>()) {}

std::shared_ptr<const Replicas> Roster::Now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

Status Roster::Add(std::shared_ptr<FleetReplica> replica) {
  const std::lock_guard lock(mutex_);
  if (now_->Find(replica->name()) != nullptr) {
    return Fail(Code::kAlreadyExists, "another upstream is called " + replica->name() + " already",
                "name");
  }
  std::vector<std::shared_ptr<FleetReplica>> list = now_->list;
  list.push_back(std::move(replica));
  now_ = Of(std::move(list));
  return {};
}

Status Roster::Replace(std::shared_ptr<FleetReplica> replica) {
  const std::string name = replica->name();
  return Change(name, std::move(replica));
}

Status Roster::Remove(std::string_view name) {
  return Change(name, nullptr);
}

Status Roster::Change(std::string_view name, std::shared_ptr<FleetReplica> maybe_successor) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<FleetReplica>> list = now_->list;
  const auto found = std::find_if(list.begin(), list.end(),
                                  [name](const auto& each) { return each->name() == name; });
  if (found == list.end()) {
    return Fail(Code::kNotFound, "no upstream has the name " + std::string(name), "name");
  }
  (*found)->SetLeaving();
  leaving_.push_back(std::move(*found));
  if (maybe_successor != nullptr) {
    *found = std::move(maybe_successor);
  } else {
    list.erase(found);
  }
  now_ = Of(std::move(list));
  return {};
}

std::vector<std::shared_ptr<FleetReplica>> Roster::Leaving() const {
  const std::lock_guard lock(mutex_);
  return leaving_;
}

// Nobody finds one here but by Leaving(), so that a count of one stays that.
std::vector<std::shared_ptr<FleetReplica>> Roster::TakeGone() {
  std::vector<std::shared_ptr<FleetReplica>> gone;
  const std::lock_guard lock(mutex_);
  const auto stay = std::partition(leaving_.begin(), leaving_.end(),
                                   [](const auto& each) { return each.use_count() > 1; });
  std::move(stay, leaving_.end(), std::back_inserter(gone));
  leaving_.erase(stay, leaving_.end());
  std::atomic_thread_fence(std::memory_order_acquire);  // after what the last others did
  return gone;
}

}  // namespace fak::fleet

#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/fleet_replica.h"

namespace fak::fleet {

// The replicas of a fleet at one moment.
struct Replicas {
  std::vector<std::shared_ptr<FleetReplica>> list;
  std::vector<ReplicaId> ids;  // of the list

  // Null: nobody is called that.
  std::shared_ptr<FleetReplica> Find(std::string_view name) const;
};

// Who is in a fleet, and who has left it and isn't gone yet. One that leaves lives on until what
// was begun there has ended, and is taken apart by whoever calls TakeGone(): a driver joins its
// threads, so no thread of its own may be the last to let it go. Any thread.
class Roster {
 public:
  Roster();

  std::shared_ptr<const Replicas> Now() const;
  // Two of the list have different names. kAlreadyExists.
  [[nodiscard]] Status Add(std::shared_ptr<FleetReplica> replica);
  // That of the same name leaves, and this one takes its place. kNotFound.
  [[nodiscard]] Status Replace(std::shared_ptr<FleetReplica> replica);
  // kNotFound.
  [[nodiscard]] Status Remove(std::string_view name);
  // Those that have left and have something to end.
  std::vector<std::shared_ptr<FleetReplica>> Leaving() const;
  // Of these, those that nobody else has any more, each once.
  std::vector<std::shared_ptr<FleetReplica>> TakeGone();

 private:
  Status Change(std::string_view name, std::shared_ptr<FleetReplica> maybe_successor);

  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const Replicas> now_;
  std::vector<std::shared_ptr<FleetReplica>> leaving_;
};

}  // namespace fak::fleet

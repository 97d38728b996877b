#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "driver/driver_factory.h"
#include "fleet/fleet_driver.h"
#include "fleet/fleet_state.h"

namespace fak::fleet {

// But for its name and its share.
bool IsSameEngine(const driver::ReplicaSpec& a, const driver::ReplicaSpec& b);

// The source of what an operator added.
inline constexpr std::string_view kFromOperator = "api";

// Who shall be in a fleet. Sources say it, each a set of replicas of its own: flags or a fleet
// file, and whoever else knows. What an operator adds and removes lies over that: it outlasts what
// the sources say next, and ends with the process. Of two of one name the operator's counts, then
// that of the source that was heard of first. What differs from before is done to the fleet; who
// stays the same keeps what is known of it, also where only its share changes.
//
// Any thread; one change at a time, which blocks as long as drivers take to be made.
class Membership {
 public:
  struct Options {
    // Whether it can be one, by member (kAlreadyExists: it is this server); fills in what is left
    // out.
    std::function<Status(driver::ReplicaSpec&)> complete;
    // What clients call its model; empty: what it lists. Null: that of all.
    std::function<std::vector<std::string>(const driver::ReplicaSpec&)> models_of = nullptr;
  };
  // present: what the fleet has already, from `source`. Fleet and factory outlive it.
  Membership(FleetDriver& fleet, driver::DriverFactory& factory, Options options,
             std::string source, std::vector<driver::ReplicaSpec> present);

  // As Options::complete: it may wait for a name to be resolved. Any thread.
  [[nodiscard]] Status Complete(driver::ReplicaSpec& replica) const {
    return options_.complete(replica);
  }

  struct Changes {  // by name
    std::vector<std::string> added;
    std::vector<std::string> removed;
    std::vector<std::string> replaced;  // by another of its name
    bool empty() const { return added.empty() && removed.empty() && replaced.empty(); }
  };
  struct SourceStatus {
    std::string name = {};
    size_t replicas = 0;     // that it has
    uint64_t updates = 0;    // that it was heard of, whether anything had changed or not
    std::string error = {};  // of the last time, where that was none: what it had before stays
  };

  // All that a source has, instead of what it had, complete and of different names. On error
  // nothing has changed: kInvalidArgument: more than limits::kUpstreamsMax with those of others, or
  // one that its driver can't be made for. kUnavailable: the fleet stops.
  [[nodiscard]] Result<Changes> Set(std::string_view source,
                                    std::vector<driver::ReplicaSpec> replicas);

  // A source that isn't sure any more whether one of its replicas is there: it gets requests where
  // nobody better is left. Empty: it is. Nothing where the name is another source's.
  void Doubt(std::string_view source, std::string_view name, std::string why);
  // It couldn't be asked, or what it said can't be: what it had stays.
  void NoteFailure(std::string_view source, const Error& error);
  // A source that says nothing any more: what it had leaves.
  void Forget(std::string_view source);
  // In the order in which they were heard of. Doesn't block.
  std::vector<SourceStatus> Sources() const;

  // All models that the fleet could be asked for, had that source these replicas; nullopt: one that
  // isn't known well enough might be asked for others.
  [[nodiscard]] std::optional<std::vector<std::string>> ModelsWith(
      std::string_view source, std::vector<driver::ReplicaSpec> replicas);

  // Before operators change anything: where changes that shall last are kept (fleet_state.h), and
  // what is kept there, which is done to the fleet. On error the fleet is half changed.
  [[nodiscard]] Status KeepIn(std::string path, FleetState state);

  // An operator's changes. kPersist: it is kept for the next start too, or not made; kUnsupported:
  // nobody said where, kIoError: it can't be written.
  enum class Lasting : uint8_t { kProcess, kPersist };
  // kAlreadyExists: its name is taken; and as of Set(). Gives its name.
  [[nodiscard]] Result<std::string> Add(driver::ReplicaSpec replica,
                                        Lasting lasting = Lasting::kProcess);
  // Whoever it is from. It ends what it has. kNotFound.
  [[nodiscard]] Status Remove(std::string_view name, Lasting lasting = Lasting::kProcess);
  // kNotFound.
  [[nodiscard]] Status SetDraining(std::string_view name, bool draining,
                                   Lasting lasting = Lasting::kProcess);

 private:
  struct Wanted {
    driver::ReplicaSpec spec;
    std::string source;
  };
  struct Said {
    std::vector<std::pair<std::string, std::vector<driver::ReplicaSpec>>> sources;
    std::vector<driver::ReplicaSpec> added;
    std::set<std::string, std::less<>> removed;
  };
  static std::vector<Wanted> Merged(const Said& said);
  static void Replace(Said& said, std::string_view source,
                      std::vector<driver::ReplicaSpec> replicas);
  Result<Changes> Apply(Said said);
  // With mutex_ held. Writes what shall be kept, does the change, and takes back what it wrote
  // where that fails.
  Status Keep(Lasting lasting, FleetState next, FunctionRef<Status()> change);
  Error NobodyIs(std::string_view name) const;
  SourceStatus& Heard(std::string_view source);  // with heard_mutex_ held
  FleetMember MemberOf(const driver::ReplicaSpec& spec,
                       std::unique_ptr<driver::EngineDriver> driver) const;

  FleetDriver& fleet_;
  driver::DriverFactory& factory_;
  const Options options_;

  std::mutex mutex_;  // guards the members below, and changes
  Said said_;
  std::vector<Wanted> present_;
  std::string state_path_;                           // empty: nothing is kept
  FleetState state_;                                 // as it is there
  std::set<std::string, std::less<>> come_drained_;  // whoever comes under these names

  mutable std::mutex heard_mutex_;  // guards the member below; nothing is waited for under it
  std::vector<SourceStatus> heard_;
};

}  // namespace fak::fleet

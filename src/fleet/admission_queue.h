#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace fak::fleet {

// Requests that wait until a replica has room for them. Lower priorities go first; of one priority
// tenants get shares by their weights, counted in the requests' costs, whoever asks more often
// (start-time fair queueing: Goyal, Vin, Cheng, 1996). Where all places are taken, whoever has
// fewer than others, of a tenant and model and by the tenant's weight, gets the last one's of who
// has most, so that nobody fills the queue for all. One that can't be answered before its deadline,
// by the rate at which requests ended lately and the time that their answers took, is refused at
// once, or, where that turns out later, dropped for those that can: a place that is given to who
// will be too late is lost for all. Pure: time comes in. Not thread-safe.
class AdmissionQueue {
 public:
  using Id = uint64_t;
  struct Entry {
    std::string tenant = {};
    std::string model = {};
    double weight = 1;  // of the tenant
    int32_t priority = 0;
    double cost = 1;
    std::optional<int64_t> deadline_ns = {};
    bool begun = false;  // its client has a part of the answer: the rest isn't as long as others'
  };

  explicit AdmissionQueue(size_t length_max) : length_max_(length_max) {}

  // kResourceExhausted, with the time after which another try makes sense: it is full, or the
  // deadline would come first.
  [[nodiscard]] Result<Id> Push(const Entry& entry, int64_t now_ns);
  // Who lost its place by the last Push().
  std::optional<Id> TakeDisplaced() { return std::exchange(displaced_, std::nullopt); }
  // Takes the first one that `fits`, in the order above.
  std::optional<Id> Pop(FunctionRef<bool(Id)> fits);
  // The one that was popped last found no room after all: it has the place that it had, whatever
  // came meanwhile, also where that is one more than the most. Whether it is that one.
  [[nodiscard]] bool PutBack(Id id);
  // Whether it waited.
  bool Remove(Id id);
  // Takes those whose deadline has come.
  std::vector<Id> TakeOverdue(int64_t now_ns);
  // Takes those for whom one answer in five would take too long if they began now, as long as
  // somebody else waits who has more time.
  std::vector<Id> TakeHopeless(int64_t now_ns);
  size_t size() const { return waiting_.size(); }

  // A request has ended, wherever it was.
  void NoteEnd(int64_t now_ns);
  // One was answered so long after it began, or had that long and wasn't answered in time.
  void NoteService(int64_t took_ns);
  // What a share q of the last answers didn't exceed; 0: not known yet.
  int64_t ServiceNs(double q) const;
  // Requests that ended a second lately; 0: none did.
  double RateAt(int64_t now_ns) const;
  // When another one could begin if it came now, in whole seconds; within [1, 60].
  int RetryAfterS(int64_t now_ns) const;

 private:
  struct Place {  // in the queue
    int32_t priority;
    double start;  // virtual time
    Id id;
    auto operator<=>(const Place&) const = default;
  };
  struct Slice {
    int64_t number = -1;
    int64_t ended = 0;
  };
  struct Waiter {
    Entry entry;
    int64_t since_ns;
  };
  using Waiting = std::map<Place, Waiter>;
  void Erase(Waiting::iterator at);
  // Of what is left until a deadline, what the answer itself has to have. Never more than half of
  // all that it was given: else nobody with a short deadline would be let in.
  int64_t MarginNs(double q, int64_t given_ns) const;
  // Whose place `entry` gets where all are taken; end(): nobody's.
  Waiting::iterator FindDisplaceable(const Entry& entry);

  const size_t length_max_;
  Waiting waiting_;
  std::unordered_map<Id, Place> places_;
  std::unordered_map<std::string, double> finish_;  // virtual time of a tenant's last request
  double virtual_now_ = 0;
  Id ids_ = 0;
  std::optional<Id> displaced_;
  Waiting popped_;                            // the last one alone
  std::array<Slice, 10> slices_ = {};         // a second each
  std::array<int64_t, 128> service_ns_ = {};  // the last ones, in any order
  size_t services_ = 0;                       // ever noted
};

}  // namespace fak::fleet

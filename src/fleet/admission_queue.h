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
// has most, so that nobody fills the queue for all. One that can't begin before its deadline, by
// the rate at which requests ended lately, is refused at once. Pure: time comes in. Not
// thread-safe.
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
  };

  explicit AdmissionQueue(size_t length_max) : length_max_(length_max) {}

  // kResourceExhausted, with the time after which another try makes sense: it is full, or the
  // deadline would come first.
  [[nodiscard]] Result<Id> Push(const Entry& entry, int64_t now_ns);
  // Who lost its place by the last Push().
  std::optional<Id> TakeDisplaced() { return std::exchange(displaced_, std::nullopt); }
  // Takes the first one that `fits`, in the order above.
  std::optional<Id> Pop(FunctionRef<bool(Id)> fits);
  // Whether it waited.
  bool Remove(Id id);
  // Takes those whose deadline has come.
  std::vector<Id> TakeOverdue(int64_t now_ns);
  size_t size() const { return waiting_.size(); }

  // A request has ended, wherever it was.
  void NoteEnd(int64_t now_ns);
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
  using Waiting = std::map<Place, Entry>;
  void Erase(Waiting::iterator at);
  // Whose place `entry` gets where all are taken; end(): nobody's.
  Waiting::iterator FindDisplaceable(const Entry& entry);

  const size_t length_max_;
  Waiting waiting_;
  std::unordered_map<Id, Place> places_;
  std::unordered_map<std::string, double> finish_;  // virtual time of a tenant's last request
  double virtual_now_ = 0;
  Id ids_ = 0;
  std::optional<Id> displaced_;
  std::array<Slice, 10> slices_ = {};  // a second each
};

}  // namespace fak::fleet

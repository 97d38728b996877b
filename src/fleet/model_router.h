#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "driver/engine_driver.h"
#include "fleet/dispatcher.h"
#include "fleet/model_table.h"

namespace fak::fleet {

// What keeps the requests of a conversation together: its session where the client says one
// (SessionOf() of fleet_request.h), else its tenant and its messages up to the first of a user,
// which later turns repeat, else the first bytes of its prompt.
uint64_t ConversationOf(const driver::Prepared& prepared);

// What became of an entry of the table since it is there.
struct ModelStatus {
  ModelTable::Entry entry;
  std::map<std::string, uint64_t> requests;  // by the model that took them
  uint64_t fallbacks = 0;                    // of these, with another than was chosen first
};

// Before the dispatcher: a request for a name of the table becomes one for a model, and one for the
// next model where nobody could take it, or whoever took it failed in a way that others may cure,
// and nothing of an answer had come. Each model is tried where somebody is well and has room; where
// that is nobody for any of them, the first that nobody was tried with is asked for as if it were
// the only one: it waits for room, or goes to who is down. Requests for other names are passed on
// as they are. Any thread; calls sinks and the dispatcher without a lock held.
class ModelRouter {
 public:
  ModelRouter(Dispatcher& dispatcher, const Clock& clock)
      : dispatcher_(dispatcher), clock_(clock) {}

  // From now on, for requests that come. What is counted of an entry that stays the same stays.
  void SetTable(ModelTable table);
  std::shared_ptr<const ModelTable> table() const;
  std::vector<ModelStatus> Describe() const;

  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink);
  void Cancel(std::string_view request_id);
  // The same request for the model that it would be tried with first.
  std::shared_ptr<const driver::Prepared> First(
      std::shared_ptr<const driver::Prepared> prepared) const;

 private:
  class Routed;
  struct Counts {
    std::map<std::string, uint64_t> requests;
    uint64_t fallbacks = 0;
  };
  void Count(const std::string& name, const std::string& model, bool fell_back);
  void Forget(const std::string& request_id, const Routed* routed);

  Dispatcher& dispatcher_;
  const Clock& clock_;
  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const ModelTable> table_ = std::make_shared<const ModelTable>();
  std::map<std::string, Counts, std::less<>> counts_;            // by entries of the table
  std::unordered_map<std::string, std::weak_ptr<Routed>> open_;  // with more models than one
};

}  // namespace fak::fleet

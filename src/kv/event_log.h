#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/kv_event.h"

namespace fak::kv {

// What a prefix tree stores and drops, as KV events, until somebody takes them. Blocks that
// continue each other make one event. Bounded by what the tree does between two calls of Take(),
// which are a step apart. Engine thread only.
class EventLog {
 public:
  // A whole block. `starts`: the first of a prompt; `parent` is then no block.
  void Stored(std::string_view salt, bool starts, uint64_t parent, uint64_t hash,
              std::span<const int32_t> tokens);
  void Removed(uint64_t hash);
  void Cleared();  // everything before it is void, and forgotten

  bool empty() const { return events_.empty(); }
  std::vector<wire::KvEvent> Take() { return std::exchange(events_, {}); }

 private:
  std::vector<wire::KvEvent> events_;
};

}  // namespace fak::kv

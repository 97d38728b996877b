#include "kv/event_log.h"

namespace fak::kv {

using wire::KvEvent;

void EventLog::Stored(std::string_view salt, bool starts, uint64_t parent, uint64_t hash,
                      std::span<const int32_t> tokens) {
  const bool continues = !starts && !events_.empty() &&
                         events_.back().kind == KvEvent::Kind::kStored &&
                         events_.back().block_hashes.back() == parent;
  if (!continues) {
    KvEvent& event = events_.emplace_back();
    event.block_size = static_cast<int32_t>(tokens.size());
    if (starts) {
      event.cache_salt = salt;
    } else {
      event.parent_hash = parent;
    }
  }
  KvEvent& event = events_.back();
  event.block_hashes.push_back(hash);
  event.tokens.insert(event.tokens.end(), tokens.begin(), tokens.end());
}

void EventLog::Removed(uint64_t hash) {
  if (events_.empty() || events_.back().kind != KvEvent::Kind::kRemoved) {
    events_.emplace_back().kind = KvEvent::Kind::kRemoved;
  }
  events_.back().block_hashes.push_back(hash);
}

void EventLog::Cleared() {
  events_.clear();
  events_.emplace_back().kind = KvEvent::Kind::kCleared;
}

}  // namespace fak::kv

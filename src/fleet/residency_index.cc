// Hot path: bench/micro/residency_bench.cc.
#include "fleet/residency_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/limits.h"
#include "fleet/chained_table.h"

namespace fak::fleet {
namespace {

// Units that a change works on before it lets lookups in: at 0.7 us each some 50 us.
constexpr size_t kTurnUnits = 64;
// Lookups whose waits for memory overlap.
constexpr size_t kBatch = 32;
constexpr size_t kWordBits = 64;
constexpr uint64_t kConfirmedMax = 255;

struct Unit {
  uint64_t key = 0;
  uint32_t next = kNone;
  uint32_t holders = 0;  // pairs
  uint64_t Id() const { return key; }
};

// Pairs of one slot make a list from the one used last to the one used longest ago.
struct Pair {
  uint64_t used : 44 = 0;  // when; 100,000 changes a second fill it in five years
  uint64_t slot : 12 = 0;
  uint64_t confirmed : 8 = 0;  // blocks of the engine, as far as can be counted
  uint32_t unit = kNone;
  uint32_t newer = kNone;
  uint32_t older = kNone;
  uint32_t next = kNone;
  uint64_t Id() const { return IdOf(slot, unit); }
  static uint64_t IdOf(uint64_t slot, uint32_t unit) { return slot << 32 | unit; }
};
static_assert(sizeof(Pair) == 24 && sizeof(Unit) == 16);
static_assert(limits::kResidencyReplicasMax <= 1 << 12, "of Pair::slot");

// What a replica has since it was last cleared: a bit of its own in the units' sets of holders.
struct Slot {
  uint32_t newest = kNone;
  uint32_t oldest = kNone;
  uint64_t oldest_used = UINT64_MAX;
  size_t pairs = 0;
};

}  // namespace

struct ResidencyIndex::Impl {
  Impl(size_t most, uint64_t seed)
      : pairs_max(std::clamp<size_t>(most, 1, kNone - 1)), units(seed), pairs(~seed) {}

  // Whoever waits to change something holds up the lookups behind it: a rwlock alone lets them
  // pass for as long as one comes before another ends.
  [[nodiscard]] std::shared_lock<std::shared_mutex> LockToRead() const {
    const std::lock_guard in_turn(door);
    return std::shared_lock(mutex);
  }
  [[nodiscard]] std::unique_lock<std::shared_mutex> LockToChange() const {
    const std::lock_guard in_turn(door);
    return std::unique_lock(mutex);
  }

  // All of these with the mutex held.
  void FindUnits(std::span<const uint64_t> keys, std::array<uint32_t, kBatch>& found) const;
  uint32_t SlotOf(ReplicaId replica) const;
  uint32_t MakeSlot(ReplicaId replica);
  uint32_t FindPair(uint32_t slot, uint64_t key) const;
  uint32_t Put(uint32_t slot, uint64_t key, uint32_t maybe_newer, uint64_t used);
  void RemovePair(uint32_t pair);
  uint32_t EvictBeyondMax();
  void LinkBehind(uint32_t pair, uint32_t maybe_newer);
  void CountConfirmed(uint32_t pair);
  void Unlink(uint32_t pair);

  // These take it.
  void PutPath(ReplicaId replica, std::span<const uint64_t> keys, bool confirm);
  template <class Visit>
  void VisitPairs(ReplicaId replica, std::span<const uint64_t> keys, Visit visit);
  const size_t pairs_max;
  mutable std::mutex door;          // held only to wait for the next one
  mutable std::shared_mutex mutex;  // guards the members below
  ChainedTable<Unit> units;
  ChainedTable<Pair> pairs;
  std::vector<ChunkedArray<uint64_t>> holders;  // [slot / 64][unit], a bit a slot
  std::vector<Slot> slots;
  std::vector<uint32_t> free_slots;
  std::unordered_map<ReplicaId, uint32_t> slot_of;  // a slot that isn't here is being emptied
  uint64_t now = 0;
};

// One lookup waits for memory three times, one after the other; those of a batch wait together.
void ResidencyIndex::Impl::FindUnits(std::span<const uint64_t> keys,
                                     std::array<uint32_t, kBatch>& found) const {
  std::array<size_t, kBatch> buckets;
  for (size_t i = 0; i < keys.size(); ++i) {
    buckets[i] = units.BucketOf(keys[i]);
    units.PrefetchBucket(buckets[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    found[i] = units.FirstOf(buckets[i]);
    if (found[i] != kNone) {
      units.Prefetch(found[i]);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    found[i] = units.FindFrom(found[i], keys[i]);
    if (found[i] != kNone) {
      for (const ChunkedArray<uint64_t>& word : holders) {
        __builtin_prefetch(&word[found[i]]);
      }
    }
  }
}

uint32_t ResidencyIndex::Impl::SlotOf(ReplicaId replica) const {
  const auto found = slot_of.find(replica);
  return found == slot_of.end() ? kNone : found->second;
}

uint32_t ResidencyIndex::Impl::MakeSlot(ReplicaId replica) {
  const auto [found, is_new] = slot_of.try_emplace(replica, kNone);
  if (!is_new) {
    return found->second;
  }
  if (free_slots.empty()) {
    if (slots.size() == limits::kResidencyReplicasMax) {
      slot_of.erase(found);
      return kNone;
    }
    if (slots.size() % kWordBits == 0) {
      holders.emplace_back().Reserve(units.numbers());
    }
    free_slots.push_back(static_cast<uint32_t>(slots.size()));
    slots.emplace_back();
  }
  found->second = free_slots.back();
  free_slots.pop_back();
  return found->second;
}

uint32_t ResidencyIndex::Impl::FindPair(uint32_t slot, uint64_t key) const {
  const uint32_t unit = units.Find(key);
  return unit == kNone ? kNone : pairs.Find(Pair::IdOf(slot, unit));
}

// The pair, made if need be, as the one used next after `maybe_newer` (kNone: as the newest).
uint32_t ResidencyIndex::Impl::Put(uint32_t slot, uint64_t key, uint32_t maybe_newer,
                                   uint64_t used) {
  uint32_t unit = units.Find(key);
  if (unit == kNone) {
    unit = units.Insert({.key = key});
    for (ChunkedArray<uint64_t>& word : holders) {
      word.Reserve(unit + size_t{1});
    }
  }
  uint64_t& word = holders[slot / kWordBits][unit];
  const uint64_t bit = uint64_t{1} << slot % kWordBits;
  uint32_t pair = kNone;
  if ((word & bit) != 0) {
    pair = pairs.Find(Pair::IdOf(slot, unit));
    if (pair == maybe_newer) {
      return pair;
    }
    Unlink(pair);
  } else {
    word |= bit;
    ++units[unit].holders;
    ++slots[slot].pairs;
    pair = pairs.Insert({.slot = slot, .unit = unit});
  }
  pairs[pair].used = used;
  LinkBehind(pair, maybe_newer);
  return pair;
}

void ResidencyIndex::Impl::RemovePair(uint32_t pair) {
  const auto slot = static_cast<uint32_t>(pairs[pair].slot);
  const uint32_t unit = pairs[pair].unit;
  Unlink(pair);
  --slots[slot].pairs;
  holders[slot / kWordBits][unit] &= ~(uint64_t{1} << slot % kWordBits);
  pairs.Erase(pair);
  if (--units[unit].holders == 0) {
    units.Erase(unit);
  }
}

// The pair that went; kNone: none had to.
uint32_t ResidencyIndex::Impl::EvictBeyondMax() {
  if (pairs.size() <= pairs_max) {
    return kNone;
  }
  const auto slot = std::min_element(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return a.oldest_used < b.oldest_used;
  });
  const uint32_t pair = slot->oldest;
  RemovePair(pair);
  return pair;
}

void ResidencyIndex::Impl::LinkBehind(uint32_t pair, uint32_t maybe_newer) {
  Slot& slot = slots[pairs[pair].slot];
  const uint32_t older = maybe_newer == kNone ? slot.newest : pairs[maybe_newer].older;
  pairs[pair].newer = maybe_newer;
  pairs[pair].older = older;
  (maybe_newer == kNone ? slot.newest : pairs[maybe_newer].older) = pair;
  if (older != kNone) {
    pairs[older].newer = pair;
  } else {
    slot.oldest = pair;
    slot.oldest_used = pairs[pair].used;
  }
}

void ResidencyIndex::Impl::Unlink(uint32_t pair) {
  Slot& slot = slots[pairs[pair].slot];
  const auto [newer, older] = std::pair(pairs[pair].newer, pairs[pair].older);
  (newer == kNone ? slot.newest : pairs[newer].older) = older;
  if (older != kNone) {
    pairs[older].newer = newer;
  } else {
    slot.oldest = newer;
    slot.oldest_used = newer == kNone ? UINT64_MAX : pairs[newer].used;
  }
}

void ResidencyIndex::Impl::CountConfirmed(uint32_t pair) {
  if (pairs[pair].confirmed < kConfirmedMax) {
    pairs[pair].confirmed = pairs[pair].confirmed + 1;
  }
}

// From the path's end, so that no unit is used later than those before it.
void ResidencyIndex::Impl::PutPath(ReplicaId replica, std::span<const uint64_t> keys,
                                   bool confirm) {
  for (size_t end = std::min(keys.size(), pairs_max); end > 0;) {
    const size_t begin = end - std::min(end, kTurnUnits);
    const auto lock = LockToChange();
    const uint32_t slot = MakeSlot(replica);
    if (slot == kNone) {
      return;
    }
    ++now;
    for (; end > begin; --end) {
      const uint32_t pair = Put(slot, keys[end - 1], kNone, now);
      if (confirm) {
        CountConfirmed(pair);
      }
      EvictBeyondMax();
    }
  }
}

template <class Visit>
void ResidencyIndex::Impl::VisitPairs(ReplicaId replica, std::span<const uint64_t> keys,
                                      Visit visit) {
  while (!keys.empty()) {
    const std::span<const uint64_t> turn = keys.first(std::min(keys.size(), kTurnUnits));
    keys = keys.subspan(turn.size());
    const auto lock = LockToChange();
    const uint32_t slot = SlotOf(replica);
    if (slot == kNone) {
      return;
    }
    for (const uint64_t key : turn) {
      if (const uint32_t pair = FindPair(slot, key); pair != kNone) {
        visit(pair);
      }
    }
  }
}

ResidencyIndex::ResidencyIndex(size_t pairs_max, RandomSource& random)
    : impl_(std::make_unique<Impl>(pairs_max, random.Next64())) {}

ResidencyIndex::~ResidencyIndex() = default;

std::vector<uint32_t> ResidencyIndex::Match(std::span<const uint64_t> keys,
                                            std::span<const ReplicaId> replicas) const {
  const auto lock = impl_->LockToRead();
  std::vector<uint32_t> slots;
  std::vector<uint64_t> holding(impl_->holders.size());
  for (const ReplicaId replica : replicas) {
    slots.push_back(impl_->SlotOf(replica));
    if (slots.back() != kNone) {
      holding[slots.back() / kWordBits] |= uint64_t{1} << slots.back() % kWordBits;
    }
  }
  std::vector<uint32_t> units_of(impl_->slots.size());  // by slot
  size_t left = 0;                                      // slots that hold all so far
  for (const uint64_t word : holding) {
    left += static_cast<size_t>(std::popcount(word));
  }
  std::array<uint32_t, kBatch> found;
  for (size_t done = 0; done < keys.size() && left > 0; done += kBatch) {
    const std::span<const uint64_t> batch =
        keys.subspan(done, std::min(kBatch, keys.size() - done));
    impl_->FindUnits(batch, found);
    for (size_t i = 0; i < batch.size() && left > 0; ++i) {
      for (size_t w = 0; w < holding.size(); ++w) {
        const uint64_t held = found[i] == kNone ? 0 : impl_->holders[w][found[i]];
        uint64_t gone = holding[w] & ~held;
        holding[w] &= held;
        for (; gone != 0; gone &= gone - 1, --left) {
          units_of[w * kWordBits + static_cast<size_t>(std::countr_zero(gone))] =
              static_cast<uint32_t>(done + i);
        }
      }
    }
  }
  for (uint32_t& slot : slots) {
    const bool holds_all =
        slot != kNone && (holding[slot / kWordBits] >> slot % kWordBits & 1) != 0;
    slot = slot == kNone ? 0 : holds_all ? static_cast<uint32_t>(keys.size()) : units_of[slot];
  }
  return slots;
}

void ResidencyIndex::Add(ReplicaId replica, std::span<const uint64_t> keys) {
  impl_->PutPath(replica, keys, false);
}

void ResidencyIndex::DropUnconfirmed(ReplicaId replica, std::span<const uint64_t> keys) {
  impl_->VisitPairs(replica, keys, [this](uint32_t pair) {
    if (impl_->pairs[pair].confirmed == 0) {
      impl_->RemovePair(pair);
    }
  });
}

void ResidencyIndex::Confirm(ReplicaId replica, std::optional<uint64_t> after,
                             std::span<const uint64_t> keys) {
  if (!after) {
    impl_->PutPath(replica, keys, true);
    return;
  }
  while (!keys.empty()) {
    const std::span<const uint64_t> turn = keys.first(std::min(keys.size(), kTurnUnits));
    keys = keys.subspan(turn.size());
    const auto lock = impl_->LockToChange();
    const uint32_t slot = impl_->SlotOf(replica);
    uint32_t before = slot == kNone ? kNone : impl_->FindPair(slot, *after);
    if (before == kNone) {
      return;
    }
    for (const uint64_t key : turn) {
      const uint32_t pair = impl_->Put(slot, key, before, impl_->pairs[before].used);
      impl_->CountConfirmed(pair);
      if (impl_->EvictBeyondMax() == pair) {
        return;  // older than all others, and what follows would be older still
      }
      before = pair;
    }
    after = turn.back();
  }
}

void ResidencyIndex::Remove(ReplicaId replica, std::span<const uint64_t> keys) {
  impl_->VisitPairs(replica, keys, [this](uint32_t pair) {
    Pair& found = impl_->pairs[pair];
    if (found.confirmed > 1) {
      found.confirmed = found.confirmed - 1;
    } else {
      impl_->RemovePair(pair);
    }
  });
}

void ResidencyIndex::Clear(ReplicaId replica) {
  uint32_t slot = kNone;
  {
    const auto lock = impl_->LockToChange();
    slot = impl_->SlotOf(replica);
    impl_->slot_of.erase(replica);
  }
  while (slot != kNone) {
    const auto lock = impl_->LockToChange();
    for (size_t i = 0; i < kTurnUnits && impl_->slots[slot].pairs > 0; ++i) {
      impl_->RemovePair(impl_->slots[slot].oldest);
    }
    if (impl_->slots[slot].pairs == 0) {
      impl_->free_slots.push_back(slot);
      slot = kNone;
    }
  }
}

size_t ResidencyIndex::pairs() const {
  const auto lock = impl_->LockToRead();
  return impl_->pairs.size();
}

size_t ResidencyIndex::bytes() const {
  const auto lock = impl_->LockToRead();
  size_t bytes =
      sizeof(Impl) + impl_->units.bytes() + impl_->pairs.bytes() +
      impl_->slots.capacity() * sizeof(Slot) + impl_->free_slots.capacity() * sizeof(uint32_t) +
      impl_->slot_of.bucket_count() * sizeof(void*) + impl_->slot_of.size() * 4 * sizeof(void*);
  for (const ChunkedArray<uint64_t>& word : impl_->holders) {
    bytes += sizeof(word) + word.bytes();
  }
  return bytes;
}

}  // namespace fak::fleet

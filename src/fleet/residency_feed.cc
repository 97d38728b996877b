#include "fleet/residency_feed.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "fleet/chained_table.h"
#include "kv/unit_keys.h"

namespace fak::fleet {
namespace {

using wire::KvEvent;
using wire::KvMedium;

constexpr uint8_t kNoRank = UINT8_MAX;
static_assert(limits::kKvEventRanksMax < kNoRank);

uint8_t BitOf(KvMedium medium) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(medium));
}
constexpr uint8_t kHeldMedia =
    1u << static_cast<unsigned>(KvMedium::kDevice) | 1u << static_cast<unsigned>(KvMedium::kHost);

// The part of an engine's block that lies in one unit. Pieces make a tree, a rank's prompts from
// their beginnings; those of one block are a chain in it. A piece whose block is held nowhere stays
// as long as something follows it.
struct Piece {
  uint64_t id = 0;
  uint64_t key = 0;  // of the last unit that ends at its end or before; before any, the root's
  uint32_t next = kNone;
  uint32_t parent = kNone;
  uint32_t first_child = kNone;
  uint32_t sibling_before = kNone;
  uint32_t sibling_after = kNone;
  uint32_t newer = kNone;  // of those that nothing follows, in the order in which they came to that
  uint32_t older = kNone;
  uint32_t pieces = 1;                  // of the block, from this one on
  uint32_t depth = 0;                   // units that end at its end or before
  uint8_t rank = kNoRank;               // its place among ranks; kNoRank: no piece
  uint8_t media = 0;                    // where the block lies
  uint8_t fill = 0;                     // tokens of the unit up to its end; 0: the unit ends there
  uint8_t own = 0;                      // of these, in this piece
  bool first = false;                   // of its block
  bool in_index = false;                // the unit that ends here was confirmed
  std::unique_ptr<int32_t[]> tokens{};  // own, where the unit doesn't end
  uint64_t Id() const { return id; }
};

struct Rank {
  int32_t number = 0;
  uint64_t generation = 0;
  std::optional<int32_t> group = {};
  bool live = false;
};

uint64_t IdOf(uint8_t rank, uint64_t hash, uint32_t piece) {
  return Xxh3(BytesOf(std::span<const uint64_t>(&hash, 1)), uint64_t{rank} << 32 | piece);
}

}  // namespace

struct ResidencyFeed::Impl {
  Impl(ResidencyIndex& the_index, ReplicaId the_replica, size_t most)
      : index(the_index), replica(the_replica), blocks_max(most) {
    Forget();
  }

  std::optional<uint8_t> RankOf(const wire::KvEventBatch& batch);
  void Store(uint8_t rank, const KvEvent& event);
  uint32_t StoreBlock(uint8_t rank, const KvEvent& event, size_t i, uint32_t before);
  uint32_t Make(uint8_t rank, uint64_t hash, uint32_t parent, uint64_t root,
                std::span<const int32_t> tokens);
  uint64_t KeyOfUnit(uint32_t parent, uint64_t before, std::span<const int32_t> last) const;
  void Remove(uint8_t rank, const KvEvent& event);
  void ClearRank(uint8_t rank);
  void Forget();

  uint32_t FindBlock(uint8_t rank, uint64_t hash) const;
  uint32_t LastOf(uint32_t first) const;
  bool MakeRoom(size_t more, uint32_t keep);
  void SetMedia(uint32_t first, uint8_t media);
  void EraseUnheld(uint32_t last);
  void EraseBlock(uint32_t last);
  void LinkChild(uint32_t piece);
  void UnlinkChild(uint32_t piece);
  void LinkEnd(uint32_t piece, bool as_newest);
  void UnlinkEnd(uint32_t piece);

  // A piece is held now, or no longer.
  void Reconsider(uint32_t piece);
  bool IsUnitHeld(uint32_t piece) const;
  void TellIndex(uint32_t piece, bool held);
  void Flush();

  bool IsHeld(uint32_t piece) const { return (pieces()[piece].media & kHeldMedia) != 0; }
  ChainedTable<Piece>& pieces() { return *maybe_pieces; }
  const ChainedTable<Piece>& pieces() const { return *maybe_pieces; }

  ResidencyIndex& index;
  const ReplicaId replica;
  const size_t blocks_max;
  mutable std::mutex mutex;  // guards the members below
  std::vector<Rank> ranks;
  std::unique_ptr<ChainedTable<Piece>> maybe_pieces;  // never null
  uint32_t newest_end = kNone;
  uint32_t oldest_end = kNone;
  ResidencyFeedStats stats;
  // What the index hasn't been told yet: units that follow each other, either way.
  bool told_held = false;
  std::optional<uint64_t> told_after;
  std::vector<uint64_t> told;
};

// ---- the tree

uint32_t ResidencyFeed::Impl::FindBlock(uint8_t rank, uint64_t hash) const {
  return pieces().Find(IdOf(rank, hash, 0));
}

uint32_t ResidencyFeed::Impl::LastOf(uint32_t first) const {
  while (pieces()[first].pieces > 1) {
    first = pieces()[first].first_child;
  }
  return first;
}

void ResidencyFeed::Impl::LinkEnd(uint32_t piece, bool as_newest) {
  Piece& added = pieces()[piece];
  added.newer = as_newest ? kNone : oldest_end;
  added.older = as_newest ? newest_end : kNone;
  (added.newer == kNone ? newest_end : pieces()[added.newer].older) = piece;
  (added.older == kNone ? oldest_end : pieces()[added.older].newer) = piece;
}

void ResidencyFeed::Impl::UnlinkEnd(uint32_t piece) {
  Piece& gone = pieces()[piece];
  (gone.newer == kNone ? newest_end : pieces()[gone.newer].older) = gone.older;
  (gone.older == kNone ? oldest_end : pieces()[gone.older].newer) = gone.newer;
  gone.newer = gone.older = kNone;
}

void ResidencyFeed::Impl::LinkChild(uint32_t piece) {
  Piece& added = pieces()[piece];
  LinkEnd(piece, true);
  if (added.parent == kNone) {
    return;
  }
  Piece& parent = pieces()[added.parent];
  if (parent.first_child == kNone) {
    UnlinkEnd(added.parent);
  } else {
    pieces()[parent.first_child].sibling_before = piece;
  }
  added.sibling_after = parent.first_child;
  parent.first_child = piece;
}

void ResidencyFeed::Impl::UnlinkChild(uint32_t piece) {
  Piece& gone = pieces()[piece];
  UnlinkEnd(piece);
  if (gone.sibling_after != kNone) {
    pieces()[gone.sibling_after].sibling_before = gone.sibling_before;
  }
  if (gone.sibling_before != kNone) {
    pieces()[gone.sibling_before].sibling_after = gone.sibling_after;
  } else if (gone.parent != kNone) {
    Piece& parent = pieces()[gone.parent];
    parent.first_child = gone.sibling_after;
    if (parent.first_child == kNone) {
      LinkEnd(gone.parent, false);
    }
  }
}

// All pieces of a block that nothing follows.
void ResidencyFeed::Impl::EraseBlock(uint32_t last) {
  for (bool more = true; more;) {
    const uint32_t piece = last;
    more = !pieces()[piece].first;
    last = pieces()[piece].parent;
    UnlinkChild(piece);
    pieces().Erase(piece);
  }
}

// The block, if it is held nowhere and nothing follows it; then those before it, likewise.
void ResidencyFeed::Impl::EraseUnheld(uint32_t last) {
  while (last != kNone && pieces()[last].media == 0 && pieces()[last].first_child == kNone) {
    uint32_t first = last;
    while (!pieces()[first].first) {
      first = pieces()[first].parent;
    }
    const uint32_t before = pieces()[first].parent;
    EraseBlock(last);
    last = before;
  }
}

// `keep`: a piece that must stay.
bool ResidencyFeed::Impl::MakeRoom(size_t more, uint32_t keep) {
  while (pieces().size() + more > blocks_max) {
    const uint32_t last = oldest_end == keep && keep != kNone ? pieces()[keep].newer : oldest_end;
    if (last == kNone) {
      return false;
    }
    uint32_t first = last;
    while (!pieces()[first].first) {
      first = pieces()[first].parent;
    }
    SetMedia(first, 0);
    EraseBlock(last);
    ++stats.forgotten;
  }
  return true;
}

// ---- units

bool ResidencyFeed::Impl::IsUnitHeld(uint32_t piece) const {
  do {
    if (!IsHeld(piece)) {
      return false;
    }
    piece = pieces()[piece].parent;
  } while (piece != kNone && pieces()[piece].fill != 0);
  return true;
}

void ResidencyFeed::Impl::Reconsider(uint32_t piece) {
  Piece& changed = pieces()[piece];
  if (changed.fill != 0) {  // the units that go on in what follows, at most 15 pieces deep
    for (uint32_t child = changed.first_child; child != kNone;
         child = pieces()[child].sibling_after) {
      Reconsider(child);
    }
    return;
  }
  const bool held = IsUnitHeld(piece);
  if (held != changed.in_index) {
    changed.in_index = held;
    TellIndex(piece, held);
  }
}

void ResidencyFeed::Impl::TellIndex(uint32_t piece, bool held) {
  const Piece& unit = pieces()[piece];
  const auto after = unit.depth == 1 ? std::nullopt : std::optional(pieces()[unit.parent].key);
  const bool goes_on = !told.empty() && told_held == held && (!held || told.back() == after);
  if (!goes_on) {
    Flush();
    told_held = held;
    told_after = after;
  }
  told.push_back(unit.key);
}

void ResidencyFeed::Impl::Flush() {
  if (!told.empty()) {
    told_held ? index.Confirm(replica, told_after, told) : index.Remove(replica, told);
  }
  told.clear();
}

void ResidencyFeed::Impl::SetMedia(uint32_t first, uint8_t media) {
  for (uint32_t piece = first;; piece = pieces()[piece].first_child) {
    const bool was_held = IsHeld(piece);
    pieces()[piece].media = media;
    if (IsHeld(piece) != was_held) {
      Reconsider(piece);
    }
    if (pieces()[piece].pieces == 1) {
      return;
    }
  }
}

// ---- events

// nullopt: the batch is none to take.
std::optional<uint8_t> ResidencyFeed::Impl::RankOf(const wire::KvEventBatch& batch) {
  const auto found = std::find_if(ranks.begin(), ranks.end(),
                                  [&batch](const Rank& rank) { return rank.number == batch.rank; });
  const auto rank = static_cast<uint8_t>(found - ranks.begin());
  if (found == ranks.end()) {
    if (ranks.size() == limits::kKvEventRanksMax) {
      stats.ignored += batch.events.size();
      return std::nullopt;
    }
    ranks.push_back({.number = batch.rank, .generation = batch.generation});
    return rank;
  }
  if (batch.generation < found->generation) {
    ++stats.late;
    return std::nullopt;
  }
  if (batch.generation > found->generation) {
    ClearRank(rank);
    ranks[rank].generation = batch.generation;
  }
  return rank;
}

void ResidencyFeed::Impl::Store(uint8_t rank, const KvEvent& event) {
  Rank& source = ranks[rank];
  if (!event.whole_prefix || (BitOf(event.medium) & kHeldMedia) == 0 ||
      source.group.value_or(event.group) != event.group) {
    ++stats.ignored;
    return;
  }
  if (!event.adapter.empty()) {
    ++stats.left_out;
    return;
  }
  if (!event.tokens.empty() &&
      (event.block_size <= 0 ||
       event.tokens.size() != event.block_hashes.size() * static_cast<size_t>(event.block_size))) {
    ++stats.malformed;
    return;
  }
  source.group = event.group;
  source.live = true;
  uint32_t last = kNone;
  for (size_t i = 0; i < event.block_hashes.size(); ++i) {
    if (i < event.extra_keys.size() && !event.extra_keys[i].empty()) {
      ++stats.left_out;
      return;
    }
    last = StoreBlock(rank, event, i, last);
    if (last == kNone && !event.tokens.empty()) {
      return;
    }
  }
}

// Block i of an event, behind `before`, the one before it there. Its last piece; kNone: nothing
// was stored.
uint32_t ResidencyFeed::Impl::StoreBlock(uint8_t rank, const KvEvent& event, size_t i,
                                         uint32_t before) {
  uint32_t first = FindBlock(rank, event.block_hashes[i]);
  if (first == kNone && event.tokens.empty()) {
    ++stats.unknown_blocks;
    return kNone;
  }
  if (first == kNone) {
    if (i == 0 && event.parent_hash) {
      const uint32_t parent = FindBlock(rank, *event.parent_hash);
      if (parent == kNone) {
        ++stats.unknown_parents;
        return kNone;
      }
      before = LastOf(parent);
    }
    const auto size = static_cast<size_t>(event.block_size);
    first = Make(rank, event.block_hashes[i], before, kv::RootKey(event.cache_salt),
                 std::span(event.tokens).subspan(i * size, size));
    if (first == kNone) {
      ++stats.forgotten;
      return kNone;
    }
  }
  const uint8_t media = pieces()[first].media;
  const uint8_t added = BitOf(event.medium);
  ++((media & added) != 0 ? stats.duplicates : stats.stored);
  SetMedia(first, media | added);
  return LastOf(first);
}

// A new block, held nowhere yet. kNone: no room.
uint32_t ResidencyFeed::Impl::Make(uint8_t rank, uint64_t hash, uint32_t parent, uint64_t root,
                                   std::span<const int32_t> tokens) {
  uint8_t fill = parent == kNone ? 0 : pieces()[parent].fill;
  const size_t count = (fill + tokens.size() + kv::kUnitTokens - 1) / kv::kUnitTokens;
  if (!MakeRoom(count, parent)) {
    return kNone;
  }
  uint32_t first = kNone;
  for (uint32_t i = 0; i < count; ++i) {
    const std::span<const int32_t> own =
        tokens.first(std::min(tokens.size(), kv::kUnitTokens - fill));
    tokens = tokens.subspan(own.size());
    Piece piece{.id = IdOf(rank, hash, i),
                .key = parent == kNone ? root : pieces()[parent].key,
                .parent = parent,
                .pieces = static_cast<uint32_t>(count - i),
                .depth = parent == kNone ? 0 : pieces()[parent].depth,
                .rank = rank,
                .first = i == 0};
    if (fill + own.size() == kv::kUnitTokens) {
      piece.key = KeyOfUnit(parent, piece.key, own);
      ++piece.depth;
      fill = 0;
    } else {
      piece.own = static_cast<uint8_t>(own.size());
      piece.tokens = std::make_unique<int32_t[]>(own.size());
      std::copy(own.begin(), own.end(), piece.tokens.get());
      fill = piece.fill = static_cast<uint8_t>(fill + own.size());
    }
    parent = pieces().Insert(std::move(piece));
    LinkChild(parent);
    first = i == 0 ? parent : first;
  }
  return first;
}

// Of the unit whose last tokens are given; those before them are in the pieces before.
uint64_t ResidencyFeed::Impl::KeyOfUnit(uint32_t parent, uint64_t before,
                                        std::span<const int32_t> last) const {
  std::array<int32_t, kv::kUnitTokens> unit;
  size_t begin = unit.size() - last.size();
  std::copy(last.begin(), last.end(), unit.begin() + static_cast<ptrdiff_t>(begin));
  while (begin > 0) {
    const Piece& piece = pieces()[parent];
    begin -= piece.own;
    std::copy_n(piece.tokens.get(), piece.own, unit.begin() + static_cast<ptrdiff_t>(begin));
    parent = piece.parent;
  }
  return kv::BlockKey(before, unit);
}

void ResidencyFeed::Impl::Remove(uint8_t rank, const KvEvent& event) {
  const uint8_t gone = BitOf(event.medium);
  if ((gone & kHeldMedia) == 0 || ranks[rank].group.value_or(event.group) != event.group) {
    ++stats.ignored;
    return;
  }
  for (const uint64_t hash : event.block_hashes) {
    const uint32_t first = FindBlock(rank, hash);
    if (first == kNone || (pieces()[first].media & gone) == 0) {
      ++stats.unknown_blocks;
      continue;
    }
    ++stats.removed;
    SetMedia(first, static_cast<uint8_t>(pieces()[first].media & ~gone));
    EraseUnheld(LastOf(first));
  }
}

void ResidencyFeed::Impl::ClearRank(uint8_t rank) {
  ++stats.cleared;
  ranks[rank].live = false;
  ranks[rank].group.reset();
  if (ranks.size() == 1) {
    Forget();
    index.Clear(replica);
    return;
  }
  for (uint32_t i = 0; i < pieces().numbers(); ++i) {
    if (pieces()[i].rank == rank) {
      if (pieces()[i].in_index) {
        TellIndex(i, false);
      }
      pieces()[i].media = 0;
    }
  }
  Flush();
  // Ends only, again and again: what a piece is followed by goes before it.
  for (uint32_t i = 0; i < pieces().numbers(); ++i) {
    if (pieces()[i].rank == rank && pieces()[i].first_child == kNone) {
      EraseUnheld(i);
    }
  }
}

void ResidencyFeed::Impl::Forget() {
  maybe_pieces = std::make_unique<ChainedTable<Piece>>(RandomSource::Real().Next64());
  newest_end = oldest_end = kNone;
  told.clear();
}

// ---- the face

ResidencyFeed::ResidencyFeed(ResidencyIndex& index, ReplicaId replica, size_t blocks_max)
    : impl_(std::make_unique<Impl>(index, replica, blocks_max)) {}

ResidencyFeed::~ResidencyFeed() = default;

void ResidencyFeed::OnBatch(const wire::KvEventBatch& batch) {
  const std::lock_guard lock(impl_->mutex);
  const auto rank = impl_->RankOf(batch);
  if (!rank) {
    return;
  }
  for (const KvEvent& event : batch.events) {
    switch (event.kind) {
      case KvEvent::Kind::kStored: impl_->Store(*rank, event); break;
      case KvEvent::Kind::kRemoved: impl_->Remove(*rank, event); break;
      case KvEvent::Kind::kCleared: impl_->ClearRank(*rank); break;
    }
  }
  impl_->Flush();
}

void ResidencyFeed::OnEnded(std::span<const uint64_t> keys, int64_t cached_tokens) {
  if (!live()) {
    return;
  }
  const size_t cached = static_cast<size_t>(std::max<int64_t>(cached_tokens, 0)) / kv::kUnitTokens;
  impl_->index.DropUnconfirmed(impl_->replica, keys.subspan(std::min(cached, keys.size())));
}

void ResidencyFeed::Clear() {
  const std::lock_guard lock(impl_->mutex);
  impl_->ranks.clear();
  impl_->Forget();
  impl_->index.Clear(impl_->replica);
}

bool ResidencyFeed::live() const {
  const std::lock_guard lock(impl_->mutex);
  return std::any_of(impl_->ranks.begin(), impl_->ranks.end(),
                     [](const Rank& rank) { return rank.live; });
}

ResidencyFeedStats ResidencyFeed::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

size_t ResidencyFeed::bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return sizeof(Impl) + impl_->pieces().bytes();
}

}  // namespace fak::fleet

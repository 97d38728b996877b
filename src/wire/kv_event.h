#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What an engine says of its cache, in no engine's encoding. Plain values.
namespace fak::wire {

// Where a block lies. Residency is a matter of (block, medium).
enum class KvMedium : uint8_t {
  kDevice,    // where the engine computes; of a CPU engine its main memory
  kHost,      // memory beside the device
  kStorage,   // disk of the replica
  kExternal,  // a pool that replicas share
};

struct KvEvent {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kStored;

  // Stored and removed. A hash is the engine's own name of a block and of all before it: opaque,
  // the same for the same block of one engine process. A block may be stored more than once.
  std::vector<uint64_t> block_hashes = {};
  KvMedium medium = KvMedium::kDevice;
  int32_t group = 0;  // of layers, in models that keep several kinds of cache

  // Stored only.
  std::optional<uint64_t> parent_hash =
      {};  // of the block before the first; absent: starts a prompt
  // block_size a hash. Empty: not said (blocks that move to another medium were named before).
  std::vector<int32_t> tokens = {};
  int32_t block_size = 0;
  // What keeps equal tokens apart. The salt stands at the first block of a prompt; later ones
  // continue their parent's.
  std::string cache_salt = {};
  std::string adapter = {};  // LoRA: its name, or its number in decimal; empty: none
  // Whatever else the engine hashed with a block (images, embeddings), a string a hash, as opaque
  // bytes; empty: none of the blocks has any.
  std::vector<std::string> extra_keys = {};
  // False: a sliding window or a recurrent state. Such a group has less than the whole prefix,
  // and no index may count on it.
  bool whole_prefix = true;

  friend bool operator==(const KvEvent&, const KvEvent&) = default;
};

// What happened in one step of an engine, in order.
struct KvEventBatch {
  uint64_t sequence = 0;    // dense for each source and generation
  uint64_t generation = 0;  // of the source: raised whenever all that it said before is void
  int32_t rank = 0;         // data-parallel rank; each has a cache of its own
  double time_s = 0;        // the engine's wall clock
  std::vector<KvEvent> events = {};

  friend bool operator==(const KvEventBatch&, const KvEventBatch&) = default;
};

}  // namespace fak::wire

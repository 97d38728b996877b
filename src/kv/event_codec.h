#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/kv_event.h"

namespace fak::kv {

// Parts of a batch that were passed over. None of them makes a batch fail.
struct KvEventsSkipped {
  uint32_t unknown_kinds = 0;   // events of a kind that we don't know
  uint32_t unknown_fields = 0;  // of events that were taken
  uint32_t malformed = 0;       // events whose fields make no sense
  uint32_t elsewhere = 0;       // of blocks that don't lie at the publisher, or in no known medium

  KvEventsSkipped& operator+=(const KvEventsSkipped& other);
};

struct DecodedKvEvents {
  wire::KvEventBatch batch;  // sequence and generation are the transport's to fill in
  bool has_rank = false;     // old publishers don't say theirs
  KvEventsSkipped skipped;
};

// The payload of a KV event message (MessagePack), as every engine writes it: events as maps (vLLM
// since June 2026, fak) or as arrays (vLLM before, SGLang), in a batch that is an array or a map.
// Block hashes may be integers or digests; a digest counts as its last 64 bits, which is what vLLM
// sends as an integer. A removal that makes no sense becomes Cleared: nobody knows what is gone.
// kDataCorrupt: no batch at all. Pure; about 40 times the payload in memory at worst.
// The shapes: docs/formats/kv_events.md. Fuzzed (fuzz/kv_event_fuzz.cc).
[[nodiscard]] Result<DecodedKvEvents> DecodeKvEvents(std::string_view payload);

// vLLM's map form. `extra_keys` are not written: nothing of ours has them. Pure.
std::string EncodeKvEvents(const wire::KvEventBatch& batch);

}  // namespace fak::kv

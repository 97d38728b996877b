#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/kv_spec.h"

namespace fak::engine {

// One answer in the making, as the scheduler sees it: tokens, how many of them have their KV, and
// where. Owned by its request; engine thread only.
struct Sequence {
  // What was asked for.
  std::string salt;  // of the prefix cache
  std::string tenant;
  double tenant_weight = 1.0;
  int32_t priority = 0;  // lower first
  uint64_t arrival = 0;  // order of arrival
  int64_t arrival_ns = 0;
  uint32_t prompt_tokens = 0;
  bool uncached = false;             // an eviction named it: its KV enters the cache no more
  bool score_prompt = false;         // wants log probabilities of prompt tokens: no cache hit
  Sequence* maybe_leader = nullptr;  // another choice of the same prompt, which is computed first

  // Prompt, then what was generated. The last token has no KV yet.
  std::vector<int32_t> tokens;

  // The scheduler's.
  enum class State : uint8_t { kWaiting, kRunning, kEnded };
  State state = State::kWaiting;
  uint32_t computed = 0;       // positions whose KV is in `blocks`
  uint32_t cached_tokens = 0;  // of the prompt, found in the cache at first admission
  uint32_t preemptions = 0;
  std::vector<tensor::BlockId> blocks;
  tensor::StateSlot state_slot = tensor::kNoState;

  uint32_t pending() const { return static_cast<uint32_t>(tokens.size()) - computed; }
  bool prompt_done() const { return computed >= prompt_tokens; }
};

}  // namespace fak::engine

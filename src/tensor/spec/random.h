#pragma once

#include <cstdint>

#include "tensor/spec/scalar.h"

// The generator of sampling: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", 2011). No state: a draw is a function of its key and
// counter.
namespace fak::tensor::spec {

struct PhiloxBlock {
  uint32_t word[4];
};

FAK_HD inline PhiloxBlock Philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// 64 uniform bits for the token at `position` (its index in the sequence, prompt included) of
// choice `choice` of a request with this seed.
FAK_HD inline uint64_t SampleBits(uint64_t seed, uint32_t choice, uint64_t position) {
  const PhiloxBlock counter = {
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0}};
  const PhiloxBlock out =
      Philox(counter, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return out.word[0] | (uint64_t{out.word[1]} << 32);
}

}  // namespace fak::tensor::spec

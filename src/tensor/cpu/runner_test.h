#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cpu/reference_test.h"
#include "tensor/cpu_backend.h"

namespace fak::tensor::cpu {

std::vector<int32_t> RandomTokens(uint32_t n, uint32_t vocabulary, uint64_t seed);

// How a run is cut up; none of it may change a bit.
struct Cut {
  Isa isa = Isa::kScalar;
  uint32_t threads = 1;
  uint32_t block_size = 16;
  uint32_t chunk = 1;  // rows of a sequence in a step
};
std::string Print(const Cut& cut);

// A back end with a model, and sequences that it runs in steps.
class Runner {
 public:
  struct Sequence {
    std::vector<int32_t> tokens;
    std::vector<BlockId> blocks;
    uint32_t done = 0;
    std::vector<std::vector<float>> logits;  // by position
  };

  Runner(const TestModel& model, const Cut& cut, bool wrong_order = false);
  // On another back end than the CPU's.
  Runner(const TestModel& model, const Cut& cut, std::unique_ptr<Backend> backend);

  // Blocks are given out in an order that is not theirs in memory.
  Sequence Start(std::vector<int32_t> tokens);
  // One step: up to `chunk` rows of each sequence, logits of all rows.
  void Step(const std::vector<Sequence*>& sequences, uint32_t chunk);
  void Finish(Sequence& sequence, uint32_t chunk);
  // All positions of a layer's K or V in canonical order.
  std::vector<std::byte> Kv(const Sequence& sequence, uint32_t layer, KvPart part) const;

  Backend& backend() { return *backend_; }
  Executable& executable() { return *executable_; }
  const std::vector<uint8_t>& finite() const { return finite_; }  // of the last step

 private:
  const TestModel& model_;
  const Cut cut_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::vector<uint8_t> finite_;
  uint32_t next_block_ = 3;
};

// By bits, so that -0 isn't +0.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);
// Logits and KV of a sequence are the specification's.
void ExpectEqual(const TestModel::Expected& expected, const Runner& runner,
                 const Runner::Sequence& sequence);

}  // namespace fak::tensor::cpu

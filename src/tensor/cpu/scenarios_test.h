#pragma once

#include <cstdint>
#include <string>

#include "tensor/cpu/runner_test.h"

// What holds of every back end: runs that its tests give a Runner on it, compared with the
// specification.
namespace fak::tensor::cpu {

TestShape ShapeNamed(const std::string& name);

// Six sequences of unlike lengths, ragged, as each alone.
void ExpectSameBitsInABatch(const TestModel& model, Runner& runner);
// block_size: the runner's.
void ExpectContinuesFromCopiedBlocks(const TestModel& model, Runner& runner, uint32_t block_size);
// KV that `prefill` computed goes on in `decode`, whose blocks are of 64 positions and more.
void ExpectContinuesFromKv(const TestModel& model, Runner& prefill, Runner& decode);
// A NaN in one sequence's KV.
void ExpectEndsOnlyWhatIsNotFinite(const TestModel& model, Runner& runner);
// A shape whose biases are beyond f16.
TestShape ShapeThatClamps();
void ExpectCountsWhatItClamped(const TestModel& model, Runner& runner);

}  // namespace fak::tensor::cpu

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/sequence.h"

namespace fak::engine {

// What a step computed of one sequence.
struct StepSlice {
  std::string_view request_id;
  const Sequence* sequence = nullptr;
  uint32_t rows = 0;
  uint32_t first_logit = 0;  // logit rows [first_logit, + logits) of the step are the sequence's
  uint32_t logits = 0;
  bool samples = false;  // the last of them was sampled from
};

// Sees a driver's steps from inside, for programs that measure them (verify, tests).
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Once a step, on the thread that steps: the rows are computed and counted in
  // sequence->computed, sequence->blocks cover them, Executable::ReadLogits() reads the step's
  // logits; what was sampled is not appended yet. Sequences whose request failed in this step are
  // left out. The views are valid during the call.
  virtual void OnStep(std::span<const StepSlice> slices) noexcept = 0;
};

}  // namespace fak::engine

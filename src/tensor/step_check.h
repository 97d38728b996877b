#pragma once

#include "base/result.h"
#include "tensor/backend.h"
#include "tensor/kv_spec.h"

// What every back end holds its callers to.
namespace fak::tensor {

// kInvalidArgument: a block size that KvSpec doesn't allow.
[[nodiscard]] Status CheckKvSpec(const KvSpec& spec);
// CHECKs the rules of StepInput, SequenceRows and SampleSpec.
void CheckStep(const StepInput& step, const StepLimits& limits, const KvSpec& kv);

}  // namespace fak::tensor

#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "tensor/gguf.h"

namespace fak::model {

// Tells model files apart: all metadata, every tensor's name, type and shape, and samples of its
// data. The same for a copy of a file, whole or split; two models that differ in any layer differ
// in it, but for an adversary's. Pure; any thread; a few KiB read a tensor.
[[nodiscard]] Result<Hash128> Fingerprint(const tensor::GgufFile& file);

}  // namespace fak::model

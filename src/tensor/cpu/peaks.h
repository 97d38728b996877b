// Hot path: it is its own benchmark (`fak bench roofline`).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cpu_backend.h"

// Loops that do nothing but read, or multiply and add: a table an instruction set, as kernels.h.
namespace fak::tensor::cpu {

// All return something that depends on everything they did, so that none of it can be left out.
struct PeakLoops {
  // Reads all of `bytes` (a multiple of 64 KiB), by pattern of kReadPatterns.
  uint32_t (*read[6])(const std::byte* data, uint64_t bytes);
  uint32_t (*dot)(uint64_t rounds);
  uint32_t (*fma)(uint64_t rounds);
  uint64_t dot_ops;  // of a round
  uint64_t fma_ops;
};

// isa must be one of CpuIsas().
const PeakLoops& PeakLoopsFor(Isa isa);

// The tables behind it: each is defined by the translation unit of its ISA, and exists where the
// machine's architecture has that ISA.
extern const PeakLoops kPeaksScalar;
extern const PeakLoops kPeaksAvx2;
extern const PeakLoops kPeaksAvx512;
extern const PeakLoops kPeaksNeon;
extern const PeakLoops kPeaksNeonDotprod;

}  // namespace fak::tensor::cpu

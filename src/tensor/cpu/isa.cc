#include <array>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "tensor/cpu_backend.h"

namespace fak::tensor {
namespace {

constexpr std::array<std::pair<Isa, std::string_view>, 5> kNames = {{
    {Isa::kAuto, "auto"},
    {Isa::kScalar, "scalar"},
    {Isa::kAvx2, "avx2"},
    {Isa::kAvx512, "avx512"},
    {Isa::kNeon, "neon"},
}};

#if defined(__x86_64__)
// Asked of the processor: clang 14's __builtin_cpu_supports doesn't know the name. That the system
// saves the registers is said by avx2.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// What the kernels of an ISA are compiled for must be on this machine, all of it (CMakeLists.txt
// has the flags).
bool Runs([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  if (isa == Isa::kAvx2) {
    return avx2;
  }
  if (isa == Isa::kAvx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
  }
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) {
    return true;  // part of the architecture
  }
#endif
  return isa == Isa::kScalar;
}

}  // namespace

std::vector<Isa> CpuIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (Runs(isa)) {
      isas.push_back(isa);
    }
  }
  return isas;
}

std::string_view IsaName(Isa isa) {
  for (const auto& [known, name] : kNames) {
    if (known == isa) {
      return name;
    }
  }
  return "unknown";
}

Result<Isa> ParseIsa(std::string_view name) {
  for (const auto& [isa, known] : kNames) {
    if (known == name) {
      return isa;
    }
  }
  return Fail(Code::kInvalidArgument,
              "unknown instruction set \"" + std::string(name) +
                  "\"; one of auto, scalar, avx2, avx512, neon",
              "isa");
}

}  // namespace fak::tensor

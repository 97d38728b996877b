#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/backend.h"

// The back end that every machine has.
namespace fak::tensor {

enum class Isa : uint8_t { kAuto, kScalar, kAvx2, kAvx512, kNeon };

struct CpuOptions {
  Isa isa = Isa::kAuto;  // forces all of it, not only the products
  uint32_t threads = 0;  // 0: one a physical core that this process may use
  // Test control of `fak verify`: sums of one product run in another order, so that a comparison
  // which can't fail is noticed. Never set in service.
  bool wrong_order = false;
};

// kUnsupported when the ISA isn't one of this machine, kInvalidArgument for more than kThreadsMax
// threads, kResourceExhausted when the system doesn't start as many.
[[nodiscard]] Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);
std::vector<Isa> CpuIsas();  // that this machine runs, scalar first
std::string_view IsaName(Isa isa);
[[nodiscard]] Result<Isa> ParseIsa(std::string_view name);  // "auto", "scalar", "avx2", ...

}  // namespace fak::tensor

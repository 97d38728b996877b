#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace fak::tensor::cuda {

// The launches of small steps, remembered: a step of a few rows is hundreds of kernels that each
// run for microseconds, and to launch them one by one takes longer than to run them. Not
// thread-safe.
class StepGraphs {
 public:
  // What decides which kernels are launched, and with which arguments.
  struct Shape {
    uint32_t rows = 0;
    uint32_t logit_rows = 0;
    uint32_t splits = 0;
    bool operator==(const Shape&) const = default;
  };
  // Steps of more rows are launched as they come: their kernels run long enough.
  static constexpr uint32_t kRowsMax = 64;
  // Of the shapes seen last; the one that wasn't needed for longest makes room.
  static constexpr size_t kShapesMax = 64;

  // FAK_CUDA_GRAPHS=off in the environment has all launched as they come, to compare.
  StepGraphs();
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // Queues what `launches` queues on `stream`. A shape's first step is launched as it comes, its
  // second is recorded, and from then on `launches` isn't called for it.
  [[nodiscard]] Status Run(const Shape& shape, cudaStream_t stream, FunctionRef<Status()> launches);

 private:
  struct Seen {
    Shape shape;
    uint64_t at = 0;
    cudaGraphExec_t maybe_graph = nullptr;
  };
  Seen* Find(const Shape& shape);
  void Remember(const Shape& shape);

  const bool on_;
  std::vector<Seen> seen_;
  uint64_t steps_ = 0;
};

}  // namespace fak::tensor::cuda

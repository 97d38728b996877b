#include "tensor/cuda/step_graphs.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tensor/cuda/status.h"

namespace fak::tensor::cuda {
namespace {

bool AreOn() {
  const char* const said = std::getenv("FAK_CUDA_GRAPHS");
  return said == nullptr || std::string_view(said) != "off";
}

Result<cudaGraphExec_t> Record(cudaStream_t stream, FunctionRef<Status()> launches) {
  TRY_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const Status launched = launches();
  cudaGraph_t graph = nullptr;
  const Status ended = CudaStatus(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t made = nullptr;
  Status recorded = launched ? ended : launched;
  if (recorded) {
    recorded = CudaStatus(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  }
  if (graph != nullptr) {
    static_cast<void>(cudaGraphDestroy(graph));
  }
  TRY(recorded);
  return made;
}

}  // namespace

StepGraphs::StepGraphs() : on_(AreOn()) {}

StepGraphs::~StepGraphs() {
  for (const Seen& seen : seen_) {
    if (seen.maybe_graph != nullptr) {
      static_cast<void>(cudaGraphExecDestroy(seen.maybe_graph));
    }
  }
}

StepGraphs::Seen* StepGraphs::Find(const Shape& shape) {
  const auto found = std::ranges::find(seen_, shape, &Seen::shape);
  return found == seen_.end() ? nullptr : &*found;
}

void StepGraphs::Remember(const Shape& shape) {
  if (seen_.size() < kShapesMax) {
    seen_.push_back({shape, steps_, nullptr});
    return;
  }
  Seen& oldest = *std::ranges::min_element(seen_, {}, &Seen::at);
  if (oldest.maybe_graph != nullptr) {
    static_cast<void>(cudaGraphExecDestroy(oldest.maybe_graph));
  }
  oldest = {shape, steps_, nullptr};
}

Status StepGraphs::Run(const Shape& shape, cudaStream_t stream, FunctionRef<Status()> launches) {
  ++steps_;
  if (!on_ || shape.rows > kRowsMax) {
    return launches();
  }
  Seen* const seen = Find(shape);
  if (seen == nullptr) {
    Remember(shape);
    return launches();
  }
  seen->at = steps_;
  if (seen->maybe_graph == nullptr) {
    TRY_ASSIGN(seen->maybe_graph, Record(stream, launches));
  }
  return CudaStatus(cudaGraphLaunch(seen->maybe_graph, stream), "cudaGraphLaunch");
}

}  // namespace fak::tensor::cuda

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "tensor/cuda/device.h"
#include "tensor/cuda/entry.h"
#include "tensor/cuda/executable.h"
#include "tensor/cuda/status.h"
#include "tensor/cuda/workspace.h"
#include "tensor/spec/version.h"

namespace fak::tensor::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  BackendInfo info() const override {
    device_->Use();
    size_t free = 0;
    size_t total = 0;
    device_->Note(CudaStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return {.name = "cuda:" + std::to_string(device_->index),
            .isa = device_->chip,
            .numerics = "portable-" + std::to_string(kNumericsVersion),
            .threads = 0,
            .memory_total = total,
            .memory_available = free};
  }

  uint64_t MatrixBytes(DType type, uint32_t rows, uint32_t cols) const override {
    return PartBytes(type, rows, cols);
  }
  uint64_t KvBlockBytes(const KvSpec& spec) const override { return KvMemory::BlockBytes(spec); }
  uint64_t WorkspaceBytes(const Program& program, const StepLimits& limits) const override {
    return LayOutWorkspace(program, limits).bytes;
  }
  Status Supports(DType type) const override { return CheckSupported(type); }

  Result<MatrixId> AddMatrix(std::span<const MatrixPart> parts) override {
    device_->Use();
    TRY_ASSIGN(Matrix matrix, device_->Loader().LoadMatrix(parts));
    device_->matrices.push_back(std::move(matrix));
    return MatrixId{static_cast<uint32_t>(device_->matrices.size() - 1)};
  }
  Result<VectorId> AddVector(const WeightReader& weight) override {
    device_->Use();
    TRY_ASSIGN(const float* const vector, device_->Loader().LoadVector(weight));
    device_->vectors.push_back(vector);
    return VectorId{static_cast<uint32_t>(device_->vectors.size() - 1)};
  }
  Result<ExpertsId> AddExperts(const ExpertsSpec& spec) override {
    device_->Use();
    TRY_ASSIGN(const Experts experts, device_->Loader().LoadExperts(spec));
    device_->experts.push_back(experts);
    return ExpertsId{static_cast<uint32_t>(device_->experts.size() - 1)};
  }
  RopeId AddRope(RopeSpec spec) override {
    CHECK(spec.inverse_freq.size() == spec.dims / 2 && spec.dims % 2 == 0);
    device_->ropes.push_back(std::move(spec));
    return RopeId{static_cast<uint32_t>(device_->ropes.size() - 1)};
  }

  Status CreateKv(const KvSpec& spec) override {
    device_->Use();
    TRY_ASSIGN(device_->kv, KvMemory::Make(spec, device_->stream));
    return {};
  }
  const KvSpec& kv() const override { return device_->kv.spec(); }
  void CopyBlock(BlockId from, BlockId to, uint32_t positions) override {
    device_->Use();
    device_->Note(device_->kv.CopyBlock(from, to, positions));
  }
  void ReadKv(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
              std::span<std::byte> out) const override {
    device_->Use();
    device_->Note(device_->kv.Read(block, layer, part, first, count, out));
  }
  void WriteKv(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
               std::span<const std::byte> in) override {
    device_->Use();
    device_->Note(device_->kv.Write(block, layer, part, first, count, in));
  }
  uint64_t kv_values_clamped() const override {
    device_->Use();
    unsigned long long count = 0;
    device_->Note(CudaStatus(cudaMemcpyAsync(&count, device_->clamped.data(), sizeof count,
                                             cudaMemcpyDeviceToHost, device_->stream),
                             "cudaMemcpyAsync"));
    device_->Note(CudaStatus(cudaStreamSynchronize(device_->stream), "cudaStreamSynchronize"));
    return count;
  }
  void ZeroState(StateSlot slot) override {
    device_->Use();
    device_->Note(device_->kv.ZeroState(slot));
  }
  void CopyState(StateSlot from, StateSlot to) override {
    device_->Use();
    device_->Note(device_->kv.CopyState(from, to));
  }
  void ReadState(StateSlot slot, uint32_t layer, std::span<float> out) const override {
    device_->Use();
    device_->Note(device_->kv.ReadState(slot, layer, out));
  }
  void WriteState(StateSlot slot, uint32_t layer, std::span<const float> in) override {
    device_->Use();
    device_->Note(device_->kv.WriteState(slot, layer, in));
  }

  Result<std::unique_ptr<Executable>> Compile(Program program, const StepLimits& limits) override {
    device_->Use();
    TRY(device_->uploader.Finish(device_->stream));
    return CudaExecutable::Make(*device_, std::move(program), limits);
  }

 private:
  const std::unique_ptr<Device> device_;
};

}  // namespace

}  // namespace fak::tensor::cuda

extern "C" __attribute__((visibility("default"))) bool fak_cuda_open(
    const char* abi, int device, fak::Result<std::unique_ptr<fak::tensor::Backend>>* opened) {
  namespace cuda = fak::tensor::cuda;
  if (std::strcmp(abi, FAK_CUDA_ABI) != 0) {
    return false;
  }
  auto made = cuda::Device::Open(device);
  if (made) {
    *opened = std::make_unique<cuda::CudaBackend>(*std::move(made));
  } else {
    *opened = fak::Fail(std::move(made).error());
  }
  return true;
}

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "tensor/cpu/device.h"
#include "tensor/cpu/executable.h"
#include "tensor/cpu/machine.h"
#include "tensor/cpu/workspace.h"
#include "tensor/cpu_backend.h"
#include "tensor/read_vector.h"
#include "tensor/spec/version.h"

namespace fak::tensor {
namespace cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(Isa isa, int threads, bool wrong_order) : device_(isa, threads, wrong_order) {}

  BackendInfo info() const override {
    const MachineMemory memory = ReadMachineMemory();
    return {.name = "cpu",
            .isa = std::string(IsaName(device_.kernels.isa)),
            .numerics = "portable-" + std::to_string(kNumericsVersion),
            .threads = static_cast<uint32_t>(device_.pool.threads()),
            .memory_total = memory.total,
            .memory_available = memory.available};
  }

  uint64_t MatrixBytes(DType type, uint32_t rows, uint32_t cols) const override {
    return PackedBytes(type, rows, cols);
  }
  uint64_t KvBlockBytes(const KvSpec& spec) const override { return KvMemory::BlockBytes(spec); }
  uint64_t WorkspaceBytes(const Program& program, const StepLimits& limits) const override {
    return LayOutWorkspace(program, limits, static_cast<uint32_t>(device_.pool.threads())).bytes;
  }
  Status Supports(DType type) const override {
    if (!IsComputed(type)) {
      return Fail(Code::kUnsupported,
                  "type " + std::string(DTypeName(type)) + " has no kernel on the CPU");
    }
    return {};
  }

  Result<MatrixId> AddMatrix(std::span<const MatrixPart> parts) override {
    TRY_ASSIGN(Matrix matrix, Loader().LoadMatrix(parts));
    device_.matrices.push_back(std::move(matrix));
    return MatrixId{static_cast<uint32_t>(device_.matrices.size() - 1)};
  }
  Result<VectorId> AddVector(const WeightReader& weight) override {
    TRY_ASSIGN(std::vector<float> vector, ReadVector(weight));
    device_.vectors.push_back(std::move(vector));
    return VectorId{static_cast<uint32_t>(device_.vectors.size() - 1)};
  }
  Result<ExpertsId> AddExperts(const ExpertsSpec& spec) override {
    TRY_ASSIGN(Experts experts, Loader().LoadExperts(spec));
    device_.experts.push_back(std::move(experts));
    return ExpertsId{static_cast<uint32_t>(device_.experts.size() - 1)};
  }
  RopeId AddRope(RopeSpec spec) override {
    CHECK(spec.inverse_freq.size() == spec.dims / 2 && spec.dims % 2 == 0);
    device_.ropes.push_back(std::move(spec));
    return RopeId{static_cast<uint32_t>(device_.ropes.size() - 1)};
  }

  Status CreateKv(const KvSpec& spec) override {
    TRY_ASSIGN(device_.kv, KvMemory::Make(spec));
    return {};
  }
  const KvSpec& kv() const override { return device_.kv.spec(); }
  void CopyBlock(BlockId from, BlockId to, uint32_t positions) override {
    device_.kv.CopyBlock(from, to, positions);
  }
  void ReadKv(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
              std::span<std::byte> out) const override {
    device_.kv.Read(block, layer, part, first, count, out);
  }
  void WriteKv(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
               std::span<const std::byte> in) override {
    device_.kv.Write(block, layer, part, first, count, in);
  }
  uint64_t kv_values_clamped() const override { return device_.kv_values_clamped.load(); }
  void ZeroState(StateSlot slot) override { device_.kv.ZeroState(slot); }
  void CopyState(StateSlot from, StateSlot to) override { device_.kv.CopyState(from, to); }
  void ReadState(StateSlot slot, uint32_t layer, std::span<float> out) const override {
    const std::span<const float> state = device_.kv.State(slot, layer);
    CHECK(out.size() == state.size());
    std::ranges::copy(state, out.begin());
  }
  void WriteState(StateSlot slot, uint32_t layer, std::span<const float> in) override {
    const std::span<float> state = device_.kv.State(slot, layer);
    CHECK(in.size() == state.size());
    std::ranges::copy(in, state.begin());
  }

  Result<std::unique_ptr<Executable>> Compile(Program program, const StepLimits& limits) override {
    return CpuExecutable::Make(device_, std::move(program), limits);
  }

  const Status& started() const { return device_.pool.started(); }

 private:
  WeightLoader Loader() { return {device_.pool, device_.memory}; }

  Device device_;
};

}  // namespace
}  // namespace cpu

Result<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  const std::vector<Isa> isas = CpuIsas();
  const Isa isa = options.isa == Isa::kAuto ? isas.back() : options.isa;
  if (std::ranges::find(isas, isa) == isas.end()) {
    return Fail(Code::kUnsupported,
                "this machine doesn't run " + std::string(IsaName(isa)) + " kernels", "isa");
  }
  if (options.threads > limits::kThreadsMax) {
    return Fail(Code::kInvalidArgument,
                std::to_string(options.threads) + " threads are more than the " +
                    std::to_string(limits::kThreadsMax) + " that are taken",
                "threads");
  }
  const int threads = options.threads == 0
                          ? std::min<int>(cpu::PhysicalCores(), limits::kThreadsMax)
                          : static_cast<int>(options.threads);
  auto backend = std::make_unique<cpu::CpuBackend>(isa, threads, options.wrong_order);
  TRY(backend->started());
  return backend;
}

}  // namespace fak::tensor

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/kv_spec.h"
#include "tensor/program.h"
#include "tensor/sampling.h"

// The seam between models and machines. A Backend owns device memory: weights, KV blocks,
// recurrent states, workspace. Room `model` loads weights into it and records a Program; room
// `engine` compiles the program and runs it a step at a time. Nothing above this header knows
// which back end runs; nothing below it knows a model.
//
// Life: Create -> Add* (weights, each streamed once, in any order) -> CreateKv -> Compile -> steps.
// Threads: one thread at a time uses a Backend and what came from it (the engine thread once
// loading is done); it has its own pool inside.
namespace fak::tensor {

// One 2-D weight of a model file: `rows` outputs of `cols` inputs, rows of whole quant blocks.
// Read once, in order or not, in slices, so that no second copy of the weights is ever held.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  virtual std::string_view name() const = 0;
  virtual DType dtype() const = 0;
  virtual uint32_t rows() const = 0;
  virtual uint32_t cols() const = 0;
  // Fills out with rows [first, first + count) in the file's block layout. May be called from the
  // back end's loader threads at the same time. Errors: kIoError, kDataCorrupt (file cut short,
  // non-finite scales).
  [[nodiscard]] virtual Status ReadRows(uint32_t first, uint32_t count,
                                        std::span<std::byte> out) const = 0;
};

struct MatrixPart {
  const WeightReader* weight = nullptr;      // borrowed during Add*
  const WeightReader* maybe_bias = nullptr;  // 1 row of F32 (or F16, BF16), `weight` rows wide
};

struct ExpertsSpec {
  const WeightReader* gate = nullptr;  // experts · ff rows, expert-major
  const WeightReader* up = nullptr;
  const WeightReader* down = nullptr;  // experts · width rows
  uint32_t experts = 0;
};

enum class RopeStyle : uint8_t {
  kAdjacent,  // pairs (2i, 2i+1): architecture llama
  kHalf,      // pairs (i, i + dims/2): qwen, gemma
};

struct RopeSpec {
  RopeStyle style = RopeStyle::kAdjacent;
  uint32_t dims = 0;                 // rotated dims of a head; the rest pass through
  std::vector<double> inverse_freq;  // dims/2 angles a position, scaling already applied
  double magnitude = 1.0;            // on cos and sin (yarn)
};

// Bounds of a step, fixed at Compile; the workspace is sized by them.
struct StepLimits {
  uint32_t rows_max = 512;      // --max-num-batched-tokens
  uint32_t sequences_max = 64;  // --max-num-seqs
  uint32_t logit_rows_max = 64;
  uint32_t positions_max = 0;  // --max-model-len
};

// The rows of one sequence in a step. Rows of a sequence are neighbours and its positions follow
// each other; a step holds each sequence at most once.
struct SequenceRows {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t first_position = 0;
  // Block n holds positions [n · block_size, (n+1) · block_size); covers the last row's position.
  // Blocks that this step writes (those of its rows) are owned by this sequence alone.
  std::span<const BlockId> blocks = {};
  StateSlot state = kNoState;
};

// A token that the previous step drew, as input of this one: entry i of its samples.
constexpr int32_t FromPreviousSample(uint32_t i) {
  return -1 - static_cast<int32_t>(i);
}

// Views are borrowed until Wait() returns.
struct StepInput {
  std::span<const int32_t> tokens = {};          // one a row; ids, or FromPreviousSample(i)
  std::span<const SequenceRows> sequences = {};  // in row order, covering all rows
  std::span<const uint32_t> logit_rows = {};     // ascending
  std::span<const SampleSpec> samples = {};      // empty, or one a logit row
};

// Views stay valid until the next Submit().
struct StepOutput {
  std::span<const SampleResult> samples;  // as StepInput::samples
  // One a sequence: false when a row of it became non-finite (numerics rule 2). Its request must
  // end with an error, and its KV must enter no cache and no digest.
  std::span<const uint8_t> finite;
};

// A program made ready to run. At most one step is in flight.
class Executable {
 public:
  virtual ~Executable() = default;
  // Starts a step. CHECKs the shape rules of StepInput (they are the scheduler's own). On the CPU
  // the work is done inside Submit; on a device it returns once the step is queued.
  [[nodiscard]] virtual Status Submit(const StepInput& step) = 0;
  // Waits for it. Errors: kResourceExhausted, kInternal (device lost).
  [[nodiscard]] virtual Result<StepOutput> Wait() = 0;
  // Copies the logits of logit row i of the last finished step; out holds `vocabulary` floats.
  virtual void ReadLogits(uint32_t i, std::span<float> out) const = 0;
  // "verb: kernel" lines, in program order without repeats: what a step runs here.
  virtual std::vector<std::string> Kernels() const = 0;
};

struct BackendInfo {
  std::string name;               // "cpu", "cuda:0"
  std::string isa;                // "scalar", "avx2", "avx512", "neon", "sm_90a"
  std::string numerics;           // part of every cache identity: "portable-1"
  uint32_t threads = 0;           // 0 on a device
  uint64_t memory_total = 0;      // bytes
  uint64_t memory_available = 0;  // bytes that a new model may take now
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;

  // Prices, before anything is loaded. Bytes as they will be resident here.
  virtual uint64_t MatrixBytes(DType type, uint32_t rows, uint32_t cols) const = 0;
  virtual uint64_t KvBlockBytes(const KvSpec& spec) const = 0;
  virtual uint64_t WorkspaceBytes(const Program& program, const StepLimits& limits) const = 0;
  // kUnsupported, naming the type, when this back end has no kernel for it.
  [[nodiscard]] virtual Status Supports(DType type) const = 0;

  // Loading. Parts are stacked in order; all have the same cols. A matrix may serve both as
  // embedding table and as head (tied weights are held once).
  [[nodiscard]] virtual Result<MatrixId> AddMatrix(std::span<const MatrixPart> parts) = 0;
  [[nodiscard]] virtual Result<VectorId> AddVector(const WeightReader& weight) = 0;
  [[nodiscard]] virtual Result<ExpertsId> AddExperts(const ExpertsSpec& spec) = 0;
  virtual RopeId AddRope(RopeSpec spec) = 0;

  // KV memory: one arena, made once. Blocks start undefined.
  [[nodiscard]] virtual Status CreateKv(const KvSpec& spec) = 0;
  virtual const KvSpec& kv() const = 0;
  // Copies the first `positions` positions of a block over all layers (copy-on-write).
  virtual void CopyBlock(BlockId from, BlockId to, uint32_t positions) = 0;
  // Moves KV in the canonical order (position, head, dim; storage type), positions
  // [first, first + count) of one block: digests, the serialiser, verify.
  virtual void ReadKv(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                      std::span<std::byte> out) const = 0;
  virtual void WriteKv(BlockId block, uint32_t layer, KvPart part, uint32_t first, uint32_t count,
                       std::span<const std::byte> in) = 0;
  // Values clamped to f16's range on their way into KV since the start (numerics rule 1).
  virtual uint64_t kv_values_clamped() const = 0;
  // Recurrent states. A slot must be zeroed or copied into before its first step.
  virtual void ZeroState(StateSlot slot) = 0;
  virtual void CopyState(StateSlot from, StateSlot to) = 0;
  virtual void ReadState(StateSlot slot, uint32_t layer, std::span<float> out) const = 0;
  virtual void WriteState(StateSlot slot, uint32_t layer, std::span<const float> in) = 0;

  [[nodiscard]] virtual Result<std::unique_ptr<Executable>> Compile(Program program,
                                                                    const StepLimits& limits) = 0;
};

}  // namespace fak::tensor

#include "tests/logits/prompt_run.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "tensor/cuda_backend.h"

namespace fak::logits {

Result<engine::LoadedEngine> Load(const std::string& path, const LoadOptions& options) {
  engine::EngineOptions limits;
  limits.scheduler.max_num_seqs = options.tokens_max;  // bounds the rows of logits as well
  limits.scheduler.max_num_batched_tokens = options.tokens_max;
  limits.kv_cache_dtype = options.kv;
  limits.kv_blocks =
      options.tokens_max / limits.scheduler.block_size + 4;  // a context of 64 at least
  TRY_ASSIGN(
      std::unique_ptr<tensor::Backend> backend,
      options.gpu ? tensor::LoadCudaBackend(0) : tensor::CreateCpuBackend({.isa = options.isa}));
  return engine::LoadEngine(path, std::move(backend), limits);
}

Result<engine::Trace> RunPrompt(engine::LoadedEngine& engine, std::span<const int32_t> tokens,
                                Rows rows) {
  const auto count = static_cast<uint32_t>(tokens.size());
  const uint32_t block_size = engine.options.scheduler.block_size;
  engine::Sequence sequence;
  for (uint32_t i = 0; i * block_size < count; ++i) {
    sequence.blocks.push_back(tensor::BlockId{i});
  }
  const tensor::SequenceRows slice{0, count, 0, sequence.blocks, tensor::kNoState};
  std::vector<uint32_t> logit_rows(rows == Rows::kAll ? count : 1);
  std::iota(logit_rows.begin(), logit_rows.end(), count - static_cast<uint32_t>(logit_rows.size()));
  TRY(engine.executable->Submit(
      {.tokens = tokens, .sequences = {&slice, 1}, .logit_rows = logit_rows, .samples = {}}));
  TRY_ASSIGN(const tensor::StepOutput output, engine.executable->Wait());
  if (output.finite[0] == 0) {
    return Fail(Code::kInternal, "the model computed a value that is not finite");
  }
  sequence.computed = count;
  engine::Trace trace;
  trace.ReadKv(engine, sequence);
  for (uint32_t row = 0; row < logit_rows.size(); ++row) {
    trace.ReadLogits(engine, row);
  }
  return trace;
}

}  // namespace fak::logits

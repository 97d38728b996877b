#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/loader.h"
#include "engine/verify_cells.h"
#include "engine/verify_trace.h"
#include "text/tokenizer.h"

namespace fak::engine {

// The engine's limits while it is verified: room for the longest prompt beside 15 others. `kv` and
// the chunk are a cell's.
EngineOptions VerifyEngineOptions(const VerifyCell& cell);
// Positions that a sequence may have under those options; the model's context must hold as many.
inline constexpr uint32_t kVerifyContext = kVerifyPromptLong + 34;

// What the sequences of a run say. Prompts are prefixes and windows of these.
struct VerifyTexts {
  std::vector<int32_t> target;  // kVerifyPromptLong tokens each
  std::vector<int32_t> others;
};
// kUnsupported when the tokenizer makes next to no tokens.
[[nodiscard]] Result<VerifyTexts> MakeVerifyTexts(const text::Tokenizer& tokenizer);

struct CellRun {
  VerifyCell cell;
  std::vector<int32_t> prompt;  // of the target; longer than the chunk
  // Control: one bit of the target's KV is flipped when its prompt is computed.
  bool flips_bit = false;
};

// What became of the target.
struct CellOutcome {
  Trace trace;
  // Not empty: the target ended with an error, or what the cell promises to walk did not happen
  // (then all bits may be right, and it means nothing).
  std::string failure;
};

// Runs a cell through the real scheduler, which the caller steps: the target generates four tokens
// greedily, among batch - 1 others that come and go, over KV memory full of NaN. The engine must
// have been loaded with VerifyEngineOptions of the same KV type; it is ready for another run
// afterwards.
CellOutcome RunCell(LoadedEngine& engine, const CellRun& run, const VerifyTexts& texts);

}  // namespace fak::engine

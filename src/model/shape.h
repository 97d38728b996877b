#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/gguf.h"
#include "tensor/program.h"

// What a model file says about its architecture, read and checked against base/limits.h before
// anything is sized by it. Pure data: no weights, no back end.
namespace fak::model {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

struct RopeShape {
  uint32_t dims = 0;  // rotated dims of a head
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double original_context = 0.0;  // yarn
  double attention_factor = 1.0;  // yarn
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
};

struct LayerShape {
  tensor::HeadShape heads;
  uint32_t feed_forward = 0;  // 0 in a layer of experts
  uint32_t window = 0;        // positions that a row sees; 0: all
};

struct ModelShape {
  std::string architecture;
  uint32_t width = 0;       // of the residual stream
  uint32_t vocabulary = 0;  // tokens; the embedding table may have more rows
  uint32_t context = 0;     // as trained
  float eps = 0.0f;
  std::vector<LayerShape> layers;

  RopeShape rope;
  RopeShape rope_local;  // of layers with a window (gemma3)

  // Mixture of experts; 0 experts: none.
  uint32_t experts = 0;
  uint32_t experts_used = 0;
  uint32_t expert_feed_forward = 0;
};

// The error with the file's name in front, unless it begins with that already.
Error InFile(const tensor::GgufFile& file, Error error);

// kUnsupported: an architecture, or something in one, that isn't served here, by name.
// kDataCorrupt: keys missing or out of bounds.
[[nodiscard]] Result<ModelShape> ReadShape(const tensor::GgufFile& file);

}  // namespace fak::model

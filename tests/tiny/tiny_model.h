#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tensor/gguf_writer.h"
#include "tests/tiny/synthetic_model.h"

// Models of a few megabytes, for tests: every family, every type, all the parts that a family has.
// Link fak_tiny.
namespace fak::tiny {

struct TinyOptions {
  Family family = Family::kLlama;
  TypeMix mix = {};  // F32
  uint64_t seed = 1;
  bool tied = false;  // gemma3 always is
  RopeScaling rope_scaling = RopeScaling::kNone;
  bool sentence_piece =
      false;           // llama with llama 2's kind of tokenizer (gemma3 always has its own)
  bool deep = false;   // gemma3 with the 62 layers of its 27B, and narrower
  bool small = false;  // 64 wide, 2 layers: an eighth of the work, where the paths matter
};

// 256 wide, 3 layers (gemma3: 7, the sixth is global, with a window of 24), 4 heads over 2, context
// 2048; qwen3 with heads of 128, the others of 64; a deep gemma3 is 128 wide, with 4 heads of 64; a
// small model has 2 heads of 32 over 1; qwen3moe with 8 experts, 2 used; a vocabulary of 303 tokens
// (qwen2: 305, the last two unused; SentencePiece: 399 and 401).
tensor::GgufWriter MakeTinyModel(const TinyOptions& options);

// The same, written to a file; kIoError.
[[nodiscard]] Status WriteTinyModel(const TinyOptions& options, const std::string& path);

}  // namespace fak::tiny

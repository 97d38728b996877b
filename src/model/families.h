#pragma once

#include <string>
#include <string_view>

#include "model/recorder.h"
#include "tensor/backend.h"

// The architectures, each as a layer function over the verbs of tensor/program.h. To add one: write
// its layer beside its nearest relative, and enter it in families.cc.
namespace fak::model {

struct Family {
  std::string_view name;  // general.architecture
  tensor::RopeStyle rope_style;
  bool experts = false;
  bool windows = false;           // has sliding-window layers with their own RoPE base
  bool scaled_embedding = false;  // rows of the embedding table times sqrt(width)
  // Records layer i onto the residual stream.
  void (*layer)(Recorder& record, uint32_t i) = nullptr;
};

// nullptr: not served here.
const Family* FindFamily(std::string_view architecture);
// "gemma3, llama, ...", for errors and --help.
std::string FamilyNames();

// On q·k: 1 / sqrt(dim), each operation rounded to f32. dim: of a head, in most models.
float AttentionScale(uint32_t dim);

void LlamaLayer(Recorder& record, uint32_t i);
void Qwen2Layer(Recorder& record, uint32_t i);
void Qwen3Layer(Recorder& record, uint32_t i);
void Qwen3MoeLayer(Recorder& record, uint32_t i);
void Gemma3Layer(Recorder& record, uint32_t i);

}  // namespace fak::model

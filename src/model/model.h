#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/shape.h"
#include "tensor/backend.h"
#include "tensor/gguf.h"

namespace fak::model {

// A model inside a back end, ready to be compiled.
struct LoadedModel {
  tensor::Program program;
  std::vector<tensor::KvLayerShape> kv_layers;
};

// What a model takes on a back end, in bytes, before it is loaded.
struct ModelPrice {
  uint64_t weights = 0;
  uint64_t kv_block = 0;  // one block of spec.block_size positions
  uint64_t workspace = 0;
};

// A model file: opened and checked, then priced, then loaded. Opening reads metadata only.
// Const functions may be called from any thread; Load from one.
class ModelFile {
 public:
  // kNotFound, kDataCorrupt, kUnsupported (naming architecture, pre-tokenizer or tensor type).
  [[nodiscard]] static Result<std::unique_ptr<ModelFile>> Open(const std::string& path);

  const tensor::GgufFile& gguf() const { return *gguf_; }
  const ModelShape& shape() const { return shape_; }
  std::vector<tensor::KvLayerShape> KvLayers() const;

  // Checks every tensor that loading would use, and adds up. kv.layers is filled in here.
  [[nodiscard]] Result<ModelPrice> Price(const tensor::Backend& backend, tensor::KvSpec kv,
                                         const tensor::StepLimits& limits) const;
  // Reads every weight as loading would and keeps none: the error that Load would have, if any
  // value or scale is not finite or the file is cut short. For a model that Price() accepts. May
  // be null: on_read(bytes read so far, of all weights). Cost: one pass over the file.
  [[nodiscard]] Status CheckWeights(
      const std::function<void(uint64_t done, uint64_t total)>& on_read) const;
  // Streams the weights into the back end once, in the file's own types.
  [[nodiscard]] Result<LoadedModel> Load(tensor::Backend& backend) const;

 private:
  ModelFile(std::unique_ptr<tensor::GgufFile> gguf, ModelShape shape)
      : gguf_(std::move(gguf)), shape_(std::move(shape)) {}

  std::unique_ptr<tensor::GgufFile> gguf_;
  ModelShape shape_;
};

}  // namespace fak::model

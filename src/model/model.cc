#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/families.h"
#include "model/recorder.h"
#include "model/weight_reader.h"

namespace fak::model {
namespace {

constexpr uint64_t kCheckedAtOnceBytes = uint64_t{1} << 20;

// The whole model: embedding, layers, head. With tied weights the head is the embedding table.
void Record(Recorder& record) {
  const ModelShape& shape = record.shape();
  const Family& family = *FindFamily(shape.architecture);
  tensor::ProgramBuilder& p = record.program();

  record.rope = record.Rope(shape.rope, family.rope_style,
                            record.MaybeFloats("rope_freqs", shape.rope.dims / 2));
  if (family.windows) {
    record.rope_local = record.Rope(shape.rope_local, family.rope_style, {});
  }
  const tensor::MatrixId table = record.Vocabulary("token_embd");
  const float scale = family.scaled_embedding ? std::sqrt(static_cast<float>(shape.width)) : 1.0f;
  record.x = p.Embed(table, shape.width, scale);
  for (uint32_t i = 0; i < shape.layers.size(); ++i) {
    record.BeginLayer(i);
    family.layer(record, i);
  }
  record.EndLayers();
  const tensor::MatrixId head = record.Has("output.weight") ? record.Vocabulary("output") : table;
  p.Head(record.x, record.Norm("output_norm", shape.width), head, shape.vocabulary);
}

}  // namespace

Result<std::unique_ptr<ModelFile>> ModelFile::Open(const std::string& path) {
  TRY_ASSIGN(std::unique_ptr<tensor::GgufFile> gguf, tensor::GgufFile::Open(path));
  TRY_ASSIGN(ModelShape shape, ReadShape(*gguf));
  return std::unique_ptr<ModelFile>(new ModelFile(std::move(gguf), std::move(shape)));
}

std::vector<tensor::KvLayerShape> ModelFile::KvLayers() const {
  std::vector<tensor::KvLayerShape> layers;
  layers.reserve(shape_.layers.size());
  for (const LayerShape& layer : shape_.layers) {
    layers.push_back({layer.heads.kv_heads, layer.heads.dim});
  }
  return layers;
}

Result<ModelPrice> ModelFile::Price(const tensor::Backend& backend, tensor::KvSpec kv,
                                    const tensor::StepLimits& limits) const {
  Recorder record(*gguf_, shape_, backend, nullptr);
  Record(record);
  ModelPrice price;
  price.weights = record.weight_bytes();
  TRY_ASSIGN(const tensor::Program program, std::move(record).Finish());
  kv.layers = KvLayers();
  price.kv_block = backend.KvBlockBytes(kv);
  price.workspace = backend.WorkspaceBytes(program, limits);
  return price;
}

Status ModelFile::CheckWeights(
    const std::function<void(uint64_t done, uint64_t total)>& on_read) const {
  uint64_t total = 0;
  for (const tensor::GgufTensor& tensor : gguf_->tensors()) {
    total += tensor.bytes;
  }
  uint64_t done = 0;
  std::vector<std::byte> buffer;
  for (const tensor::GgufTensor& tensor : gguf_->tensors()) {
    const FileWeight weight(*gguf_, tensor);
    const auto row_bytes = static_cast<uint64_t>(tensor::RowBytes(tensor.type, tensor.shape[0]));
    const auto rows_at_once =
        static_cast<uint32_t>(std::clamp<uint64_t>(kCheckedAtOnceBytes / row_bytes, 1, UINT32_MAX));
    for (uint32_t row = 0; row < weight.rows();) {
      const uint32_t count = std::min(rows_at_once, weight.rows() - row);
      buffer.resize(count * row_bytes);
      TRY(weight.ReadRows(row, count, buffer));
      row += count;
      done += buffer.size();
      if (on_read) {
        on_read(done, total);
      }
    }
  }
  return {};
}

Result<LoadedModel> ModelFile::Load(tensor::Backend& backend) const {
  Recorder record(*gguf_, shape_, backend, &backend);
  Record(record);
  TRY_ASSIGN(tensor::Program program, std::move(record).Finish());
  return LoadedModel{std::move(program), KvLayers()};
}

}  // namespace fak::model

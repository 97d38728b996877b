#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/shape.h"
#include "tensor/backend.h"
#include "tensor/gguf.h"
#include "tensor/program.h"

namespace fak::model {

enum class Bias : uint8_t { kNone, kOptional, kRequired };

// What a layer function writes on: the program under construction, and the weights of the file by
// name. With a back end it loads each weight as it is named; without one it only checks shapes and
// adds up what the weights would take (pricing). The first error sticks and later calls do nothing,
// so that layer functions read like the paper; Finish() returns it.
// One thread. Cost: with a back end, one pass over the file's tensor data.
class Recorder {
 public:
  // maybe_backend: loads into it; null: prices against `pricer`, which is never changed.
  Recorder(const tensor::GgufFile& file, const ModelShape& shape, const tensor::Backend& pricer,
           tensor::Backend* maybe_backend);

  const ModelShape& shape() const { return shape_; }
  const LayerShape& layer(uint32_t i) const { return shape_.layers[i]; }
  tensor::ProgramBuilder& program() { return program_; }

  tensor::Rows x;               // the residual stream
  tensor::RopeId rope{};        // of layers that see everything
  tensor::RopeId rope_local{};  // of layers with a window

  // "blk.<i>.<name>.weight" of the layer that is being recorded, or "<name>.weight" outside.
  void BeginLayer(uint32_t i) { prefix_ = "blk." + std::to_string(i) + "."; }
  void EndLayers() { prefix_.clear(); }

  // RMSNorm weight of `width` values, with the model's eps.
  tensor::Norm Norm(std::string_view name, uint32_t width);
  // One matrix of rows x cols; cols is the contraction.
  struct Part {
    std::string_view name;
    uint32_t rows;
  };
  tensor::MatrixId Matrix(std::string_view name, uint32_t rows, uint32_t cols,
                          Bias bias = Bias::kNone);
  // Several, stacked in order.
  tensor::MatrixId Stack(std::initializer_list<Part> parts, uint32_t cols, Bias bias = Bias::kNone);
  // The embedding table or the head: at least `vocabulary` rows.
  tensor::MatrixId Vocabulary(std::string_view name);
  tensor::ExpertsId Experts(std::string_view gate, std::string_view up, std::string_view down);
  // Reads a small f32 tensor of divisors (rope factors), all above 0; empty when the file has none.
  std::vector<float> MaybeFloats(std::string_view name, uint32_t count);
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  tensor::RopeId Rope(const RopeShape& shape, tensor::RopeStyle style,
                      const std::vector<float>& factors);

  uint64_t weight_bytes() const { return weight_bytes_; }
  void Fail(Error error);

  // The program, or the first error. Also an error: a weight of the file that nothing used (it
  // would mean that the model is not the one we compute).
  Result<tensor::Program> Finish() &&;

 private:
  const tensor::GgufTensor* Find(std::string_view name) const;
  const tensor::GgufTensor* Take(const std::string& full_name, int64_t rows, int64_t cols,
                                 bool more_rows = false);
  // With an error that names its file, or that is the back end's and not the file's.
  void FailLoading(Error error);
  std::string FullName(std::string_view name) const { return prefix_ + std::string(name); }

  const tensor::GgufFile& file_;
  const ModelShape& shape_;
  const tensor::Backend& pricer_;
  tensor::Backend* const maybe_backend_;
  tensor::ProgramBuilder program_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_;
  uint64_t weight_bytes_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace fak::model

#include "model/recorder.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "model/rope.h"
#include "model/weight_reader.h"

namespace fak::model {

using tensor::DType;
using tensor::GgufTensor;

Recorder::Recorder(const tensor::GgufFile& file, const ModelShape& shape,
                   const tensor::Backend& pricer, tensor::Backend* maybe_backend)
    : file_(file), shape_(shape), pricer_(pricer), maybe_backend_(maybe_backend) {}

void Recorder::Fail(Error error) {
  FailLoading(Within(file_.part_path(0), std::move(error)));
}

void Recorder::FailLoading(Error error) {
  if (!failed_) {
    failed_ = true;
    error_ = std::move(error);
  }
}

const GgufTensor* Recorder::Find(std::string_view name) const {
  return file_.FindTensor(FullName(name));
}

// The tensor of that name, marked as used; null after an error.
const GgufTensor* Recorder::Take(const std::string& full_name, int64_t rows, int64_t cols,
                                 bool more_rows) {
  if (failed_) {
    return nullptr;
  }
  const GgufTensor* tensor = file_.FindTensor(full_name);
  if (tensor == nullptr) {
    Fail({Code::kDataCorrupt, "tensor " + full_name + " is missing"});
    return nullptr;
  }
  const bool rows_fit = more_rows ? tensor->rows() >= rows : tensor->rows() == rows;
  if (tensor->shape[0] != cols || !rows_fit) {
    Fail({Code::kDataCorrupt, "tensor " + full_name + " is " + std::to_string(tensor->shape[0]) +
                                  " x " + std::to_string(tensor->rows()) + "; must be " +
                                  std::to_string(cols) + " x " + std::to_string(rows)});
    return nullptr;
  }
  if (Status supported = pricer_.Supports(tensor->type); !supported) {
    Fail(Within("tensor " + full_name, std::move(supported).error()));
    return nullptr;
  }
  used_.insert(full_name);
  return tensor;
}

tensor::Norm Recorder::Norm(std::string_view name, uint32_t width) {
  const GgufTensor* tensor = Take(FullName(name) + ".weight", 1, width);
  if (tensor == nullptr) {
    return {};
  }
  weight_bytes_ += uint64_t{width} * sizeof(float);
  tensor::Norm norm{tensor::VectorId{0}, shape_.eps};
  if (maybe_backend_ != nullptr) {
    Result<tensor::VectorId> id = maybe_backend_->AddVector(FileWeight(file_, *tensor));
    if (!id) {
      FailLoading(std::move(id).error());
      return {};
    }
    norm.weight = *id;
  }
  return norm;
}

tensor::MatrixId Recorder::Matrix(std::string_view name, uint32_t rows, uint32_t cols, Bias bias) {
  return Stack({{name, rows}}, cols, bias);
}

tensor::MatrixId Recorder::Stack(std::initializer_list<Part> parts, uint32_t cols, Bias bias) {
  std::vector<FileWeight> readers;  // reserved: the parts below point into it
  readers.reserve(2 * parts.size());
  std::vector<tensor::MatrixPart> stacked;
  for (const Part& part : parts) {
    const std::string name = FullName(part.name);
    const GgufTensor* weight = Take(name + ".weight", part.rows, cols);
    if (weight == nullptr) {
      return tensor::kNoMatrix;
    }
    weight_bytes_ += pricer_.MatrixBytes(weight->type, part.rows, cols);
    readers.emplace_back(file_, *weight);
    tensor::MatrixPart& added = stacked.emplace_back();
    added.weight = &readers.back();
    const bool has_bias = file_.FindTensor(name + ".bias") != nullptr;
    if (bias == Bias::kRequired || (bias == Bias::kOptional && has_bias)) {
      const GgufTensor* values = Take(name + ".bias", 1, part.rows);
      if (values == nullptr) {
        return tensor::kNoMatrix;
      }
      weight_bytes_ += uint64_t{part.rows} * sizeof(float);
      readers.emplace_back(file_, *values);
      added.maybe_bias = &readers.back();
    }
  }
  if (maybe_backend_ == nullptr) {
    return tensor::MatrixId{0};
  }
  Result<tensor::MatrixId> id = maybe_backend_->AddMatrix(stacked);
  if (!id) {
    FailLoading(std::move(id).error());
    return tensor::kNoMatrix;
  }
  return *id;
}

tensor::MatrixId Recorder::Vocabulary(std::string_view name) {
  const GgufTensor* table = Take(FullName(name) + ".weight", shape_.vocabulary, shape_.width, true);
  if (table == nullptr) {
    return tensor::kNoMatrix;
  }
  weight_bytes_ +=
      pricer_.MatrixBytes(table->type, static_cast<uint32_t>(table->rows()), shape_.width);
  if (maybe_backend_ == nullptr) {
    return tensor::MatrixId{0};
  }
  const FileWeight reader(file_, *table);
  const tensor::MatrixPart part{&reader, nullptr};
  Result<tensor::MatrixId> id = maybe_backend_->AddMatrix({&part, 1});
  if (!id) {
    FailLoading(std::move(id).error());
    return tensor::kNoMatrix;
  }
  return *id;
}

tensor::ExpertsId Recorder::Experts(std::string_view gate, std::string_view up,
                                    std::string_view down) {
  const uint32_t inner = shape_.expert_feed_forward;
  const int64_t inner_rows = int64_t{shape_.experts} * inner;
  const int64_t outer_rows = int64_t{shape_.experts} * shape_.width;
  const GgufTensor* gates = Take(FullName(gate) + ".weight", inner_rows, shape_.width);
  const GgufTensor* ups = Take(FullName(up) + ".weight", inner_rows, shape_.width);
  const GgufTensor* downs = Take(FullName(down) + ".weight", outer_rows, inner);
  if (gates == nullptr || ups == nullptr || downs == nullptr) {
    return {};
  }
  for (const GgufTensor* stack : {gates, ups, downs}) {
    weight_bytes_ +=
        shape_.experts * pricer_.MatrixBytes(stack->type,
                                             static_cast<uint32_t>(stack->rows() / shape_.experts),
                                             static_cast<uint32_t>(stack->shape[0]));
  }
  if (maybe_backend_ == nullptr) {
    return {};
  }
  const FileWeight gate_reader(file_, *gates);
  const FileWeight up_reader(file_, *ups);
  const FileWeight down_reader(file_, *downs);
  Result<tensor::ExpertsId> id =
      maybe_backend_->AddExperts({&gate_reader, &up_reader, &down_reader, shape_.experts});
  if (!id) {
    FailLoading(std::move(id).error());
    return {};
  }
  return *id;
}

std::vector<float> Recorder::MaybeFloats(std::string_view name, uint32_t count) {
  const std::string full = FullName(name) + ".weight";
  if (failed_ || file_.FindTensor(full) == nullptr) {
    return {};
  }
  const GgufTensor* tensor = Take(full, 1, count);
  if (tensor == nullptr) {
    return {};
  }
  if (tensor->type != DType::kF32) {
    Fail({Code::kUnsupported, "tensor " + full + " is not F32"});
    return {};
  }
  std::vector<float> values(count);
  if (Status read =
          FileWeight(file_, *tensor).ReadRows(0, 1, std::as_writable_bytes(std::span(values)));
      !read) {
    FailLoading(std::move(read).error());
    return {};
  }
  const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return v <= 0.0f; });
  if (bad != values.end()) {
    Fail({Code::kDataCorrupt, "tensor " + full + ": element " +
                                  std::to_string(bad - values.begin()) + " must be above 0"});
    return {};
  }
  return values;
}

tensor::RopeId Recorder::Rope(const RopeShape& shape, tensor::RopeStyle style,
                              const std::vector<float>& factors) {
  if (maybe_backend_ == nullptr || failed_) {
    return {};
  }
  return maybe_backend_->AddRope(MakeRope(shape, style, factors));
}

Result<tensor::Program> Recorder::Finish() && {
  if (!failed_) {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!used_.contains(tensor.name)) {
        Fail({Code::kUnsupported, "tensor " + tensor::PrintableName(tensor.name) +
                                      " is not part of architecture " + shape_.architecture +
                                      " as it is computed here"});
        break;
      }
    }
  }
  if (failed_) {
    return fak::Fail(error_);
  }
  return std::move(program_).Finish();
}

}  // namespace fak::model

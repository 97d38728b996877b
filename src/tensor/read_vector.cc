#include "tensor/read_vector.h"

#include <cstdint>
#include <string>

#include "tensor/spec/dot.h"

namespace fak::tensor {

Result<std::vector<float>> ReadVector(const WeightReader& weight) {
  if (IsQuantised(weight.dtype()) || !IsComputed(weight.dtype())) {
    return Fail(Code::kUnsupported, std::string(weight.name()) + ": type " +
                                        std::string(DTypeName(weight.dtype())) +
                                        " where floats are expected");
  }
  std::vector<std::byte> bytes(static_cast<uint64_t>(RowBytes(weight.dtype(), weight.cols())) *
                               weight.rows());
  TRY(weight.ReadRows(0, weight.rows(), bytes));
  std::vector<float> values(uint64_t{weight.rows()} * weight.cols());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = spec::FloatElement(weight.dtype(), bytes.data(), static_cast<int64_t>(i));
  }
  return values;
}

}  // namespace fak::tensor

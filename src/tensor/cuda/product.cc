#include "tensor/cuda/product.h"

#include "tensor/spec/quantise.h"

namespace fak::tensor::cuda {

InputClass InputClassOf(DType type) {
  if (!IsQuantised(type)) {
    return InputClass::kFloat;
  }
  return spec::ActivationBlock(type) == 256 ? InputClass::kInt8x256 : InputClass::kInt8x32;
}

cudaError_t Multiply(const Product& product, cudaStream_t stream) {
  if (product.rows == 0 || product.outputs == 0) {
    return cudaSuccess;
  }
  switch (InputClassOf(product.type)) {
    case InputClass::kFloat: return MultiplyFloat(product, stream);
    case InputClass::kInt8x32: return MultiplyBlocks32(product, stream);
    case InputClass::kInt8x256: return MultiplyBlocks256(product, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace fak::tensor::cuda

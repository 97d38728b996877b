#include "tensor/cuda/product_quantised.cuh"

namespace fak::tensor::cuda {

cudaError_t MultiplyBlocks256(const Product& product, cudaStream_t stream) {
  switch (product.type) {
    case DType::kQ4K: return MultiplyQuantised<BlockQ4K>(product, stream);
    case DType::kQ5K: return MultiplyQuantised<BlockQ5K>(product, stream);
    case DType::kQ6K: return MultiplyQuantised<BlockQ6K>(product, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace fak::tensor::cuda

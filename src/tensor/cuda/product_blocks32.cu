#include "tensor/cuda/product_quantised.cuh"

namespace fak::tensor::cuda {

cudaError_t MultiplyBlocks32(const Product& product, cudaStream_t stream) {
  switch (product.type) {
    case DType::kQ4_0: return MultiplyQuantised<BlockQ4_0>(product, stream);
    case DType::kQ4_1: return MultiplyQuantised<BlockQ4_1>(product, stream);
    case DType::kQ5_0: return MultiplyQuantised<BlockQ5_0>(product, stream);
    case DType::kQ5_1: return MultiplyQuantised<BlockQ5_1>(product, stream);
    case DType::kQ8_0: return MultiplyQuantised<BlockQ8_0>(product, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace fak::tensor::cuda

// Hot path: bench/micro/matmul_bench.cc. The products of matmul.h for one ISA: the whole source of
// matmul_scalar.cc, matmul_avx2.cc ..., included inside the ISA's namespace.
#include "tensor/cpu/matmul_formats.inl"
#include "tensor/cpu/matmul_tiles.inl"
#include "tensor/cpu/matmul_walk.inl"
//
#include "tensor/cpu/matmul_blocked.inl"
//
#include "tensor/cpu/matmul_multiply.inl"

#include "tensor/cpu/matmul_float.inl"
#include "tensor/cpu/quantise.inl"

template <class... Format>
constexpr void SetProducts(MatmulKernels& out) {
  ((out.multiply[static_cast<int>(Format::kDType)] = Multiply<Format>), ...);
}
template <class... Format>
constexpr void SetFloatProducts(MatmulKernels& out) {
  ((out.multiply[static_cast<int>(Format::kDType)] = MultiplyFloat<Format>), ...);
}

constexpr MatmulKernels MakeKernels(std::string_view isa) {
  MatmulKernels out;
  out.isa = isa;
  out.quantise = Quantise;
  SetFloatProducts<FormatF32, FormatF16, FormatBf16>(out);
  SetProducts<FourBits32<DType::kQ4_0, 8>, FourBits32<DType::kQ4_1, 0>,
              FiveBits32<DType::kQ5_0, 16>, FiveBits32<DType::kQ5_1, 0>, FormatQ8_0, FormatIq4Nl,
              FormatQ2K, FormatQ3K, FormatQ4K, FormatQ5K, FormatQ6K, FormatIq4Xs>(out);
  return out;
}

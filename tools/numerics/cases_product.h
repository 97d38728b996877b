#pragma once

#include "inputs.h"
#include "tensor/spec/all.h"

// Test vectors of the weight formats: rules 5, 6, 7 and the embedding rows of 11.
namespace fak::vectors {

inline constexpr int kColumnsMax = 1792;

template <class Block>
FAK_HD inline int Columns(int i) {
  constexpr int kWide[3] = {256, 512, 1792};
  constexpr int kNarrow[3] = {32, 288, 576};
  return ActivationBlock(Block::kType) == 256 ? kWide[i] : kNarrow[i];
}

FAK_HD inline int ProductKind(int i) {
  constexpr int kChosen[6] = {kOrdinary, kMixed, kTiny, kHuge, kOnes, kAnyBits};
  return kChosen[i];
}

// The two families, without the switch over all types, which would be compiled into every case.
template <class Block>
FAK_HD inline float Dot(const Block* row, int64_t n, QuantisedRow x) {
  if constexpr (ActivationBlock(Block::kType) == 256) {
    return DotRow256(row, n, x);
  } else {
    return DotRow32(row, n, x);
  }
}
template <class Block>
FAK_HD inline float Element(const Block* row, int i) {
  if constexpr (ActivationBlock(Block::kType) == 256) {
    return BlockElement256(row[i / 256], i % 256);
  } else {
    return BlockElement32(row[i / 32], i % 32);
  }
}

// The integer sums of one block.
template <class Block>
FAK_HD inline void PutIntegers(const Weights32& block, const int8_t* q, Sink& out) {
  out.PutInt(IntegerDot(block.w, q, 32));
  out.PutInt(IntegerSum(q, 32));
}
template <class Block>
FAK_HD inline void PutIntegers(const Weights256& block, const int8_t* q, Sink& out) {
  constexpr int kPart = PartElements(Block::kType);
  for (int first = 0; first < 256; first += kPart) {
    out.PutInt(ScaledIntegerDot(block, q, first, kPart));
  }
  out.PutInt(MinimumSum(block, q));
}

template <class Block>
struct WeightsOf {
  using Type = Weights32;
};
template <class Block>
  requires(ActivationBlock(Block::kType) == 256)
struct WeightsOf<Block> {
  using Type = Weights256;
};

// One output: the dot product, and the integers of the first block.
template <class Block>
struct ProductCase {
  static constexpr const char* kName = "product.";
  static constexpr DType kType = Block::kType;
  static constexpr int kItems = 3 * kVariants * 6;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr int kBlock = ActivationBlock(kType);
    const uint64_t stream = 20000 + static_cast<uint64_t>(item);
    const int n = Columns<Block>(item / (kVariants * 6));
    Block row[kColumnsMax / kBlock];
    FillWeights(item / 6 % kVariants, stream, n / kBlock, row);
    float x[kColumnsMax] = {};
    Fill(ProductKind(item % 6), 30000 + static_cast<uint64_t>(item), n, x);
    int8_t q[kColumnsMax];
    float scales[kColumnsMax / kBlock];
    QuantiseRow(x, n, kBlock, q, scales);
    out.Put(Dot(row, n, {q, scales}));
    typename WeightsOf<Block>::Type block;
    Unpack(row[0], block);
    PutIntegers<Block>(block, q, out);
  }
};

template <class Block>
struct EmbeddingCase {
  static constexpr const char* kName = "embedding.";
  static constexpr DType kType = Block::kType;
  static constexpr int kItems = kVariants * 2;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr int kElements = 512;
    Block row[kElements / ActivationBlock(kType)];
    FillWeights(item % kVariants, 40000 + static_cast<uint64_t>(item),
                kElements / ActivationBlock(kType), row);
    for (int i = 0; i < kElements; ++i) {
      out.Put(Element(row, i));
    }
    out.Put(EmbeddingScale(kElements + item));
  }
};

// Weights of the three float types: kinds for F32; the same values rounded for F16 and BF16.
template <DType kWeightType>
struct FloatProductCase {
  static constexpr const char* kName = "product.";
  static constexpr DType kType = kWeightType;
  static constexpr int kItems = kKinds * kLengthCount;
  FAK_HD static void Run(int item, Sink& out) {
    const int n = Length(item / kKinds);
    float weights[kLengthMax] = {};
    float x[kLengthMax] = {};
    Fill(item % kKinds, 50000 + static_cast<uint64_t>(item), n, weights);
    Fill(item % 5 == 0 ? kMixed : kOrdinary, 60000 + static_cast<uint64_t>(item), n, x);
    uint16_t halves[kLengthMax];
    for (int i = 0; i < n && kType != DType::kF32; ++i) {
      halves[i] = kType == DType::kF16 ? F32ToF16(weights[i]) : F32ToBf16(weights[i]);
    }
    const void* row = kType == DType::kF32 ? static_cast<const void*>(weights) : halves;
    out.Put(AddResidual(x[0], AddBias(DotRowFloat(kType, row, n, x), weights[0])));
  }
};

}  // namespace fak::vectors

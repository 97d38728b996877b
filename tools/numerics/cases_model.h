#pragma once

#include "cases_product.h"
#include "inputs.h"
#include "tensor/spec/all.h"

// Test vectors of rules 10, 11 and 12, and a small model that chains the rules.
namespace fak::vectors {

// K or V of position t, as a KV cache of one of the three types holds it.
struct StoredValues {
  int kind;
  int type;  // 0: f16, 1: bf16, 2: f32
  uint64_t stream;
  FAK_HD float operator()(int64_t t, int e) const {
    const float x =
        Value(kind, stream, (static_cast<uint64_t>(t) << 10) + static_cast<uint64_t>(e));
    return type == 0   ? F16ToF32(StoreKvF16(x).bits)
           : type == 1 ? Bf16ToF32(StoreKvBf16(x).bits)
                       : x;
  }
};

// Every length with four head dims; some with a first visible position, some capped.
struct AttentionCase {
  static constexpr const char* kName = "attention";
  static constexpr int kItems = 4 * kLengthCount;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr int kDims[4] = {64, 80, 128, 16};
    constexpr int kChosen[5] = {kOrdinary, kMixed, kDenormal, kHuge, kMostlyNegativeZero};
    const int dim = kDims[item / kLengthCount];
    const int64_t end = Length(item % kLengthCount);
    const int64_t begin = FirstVisible(end - 1, item % 3 == 1 ? end - end / 3 : 0);
    const float cap = 30.0f + static_cast<float>(item);
    const ScoreScale scale =
        item % 4 == 2 ? CappedScore(InverseSqrt(dim), cap) : PlainScore(InverseSqrt(dim));
    out.Put(scale.inner);
    out.Put(scale.outer);
    const uint64_t stream = 70000 + 4 * static_cast<uint64_t>(item);
    const StoredValues key = {kChosen[item % 4], item % 3, stream};
    const StoredValues value = {kChosen[item % 5], item % 3, stream + 1};
    float q[128] = {};
    float o[128];
    Fill(item % 4 == 3 ? kSmall : kOrdinary, stream + 2, dim, q);
    for (int e = 0; e < dim && item % 2 == 0; ++e) {
      q[e] = q[e] * 0.125f;  // many positions of like weight
    }
    Attend(q, dim, begin, end, scale, key, value, o);
    out.Put(o, dim);
  }
};

struct RouterCase {
  static constexpr const char* kName = "router";
  static constexpr int kItems = 64;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr int kExperts[4] = {8, 60, 128, 256};
    const int experts = kExperts[item % 4];
    const int k = 2 << (item / 4 % 3);
    float logits[256] = {};
    Fill(kMixed, 80000 + static_cast<uint64_t>(item), experts, logits);
    for (int i = 0; i < experts && item % 2 == 0; ++i) {
      // Coarse values: many ties.
      logits[i] = static_cast<float>(static_cast<int32_t>(
                      Draw(80100, static_cast<uint64_t>(256 * item + i)) % 9)) -
                  4.0f;
    }
    int32_t ids[8];
    float weights[8] = {};
    Route(logits, experts, k, item % 3 != 0, item % 5 == 0 ? 2.5f : 1.0f, ids, weights);
    float sum = 0.0f;
    for (int rank = 0; rank < k; ++rank) {
      out.PutInt(ids[rank]);
      out.Put(weights[rank]);
      sum = AddExpert(sum, weights[rank], Value(kMixed, 80200, static_cast<uint64_t>(ids[rank])));
    }
    out.Put(sum);
    out.PutInt(static_cast<int32_t>(ArgMax(logits, experts)));
  }
};

struct RandomCase {
  static constexpr const char* kName = "random";
  static constexpr int kItems = 4096;
  FAK_HD static void Run(int item, Sink& out) {
    const uint64_t i = static_cast<uint64_t>(item);
    const uint64_t bits =
        SampleBits(Draw(81000, i), static_cast<uint32_t>(i % 5), Draw(81001, i) >> (i % 60));
    out.Put(bits);
    const uint64_t total = Draw(81002, i) >> (3 + i % 50);
    const uint64_t target = DrawTarget(bits, total);
    out.Put(target);
    out.Put(MassTarget(static_cast<float>(bits >> 40) * 0x1p-24f, total));
    out.Put(MinPThreshold(static_cast<float>(bits >> 40) * 0x1p-24f));
  }
};

struct SamplingCase {
  static constexpr const char* kName = "sampling";
  static constexpr int kItems = 32;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr int kTokens = 1000;
    const uint64_t stream = 82000 + static_cast<uint64_t>(item);
    float logits[kTokens] = {};
    Fill(item % 4 == 0 ? kMixed : kOrdinary, stream, kTokens, logits);
    for (int i = 0; i < kTokens; ++i) {
      const uint64_t u = Draw(stream + 100, static_cast<uint64_t>(i));
      logits[i] = Penalise(logits[i], 1.25f, 0.1f, 0.3f, static_cast<uint32_t>(u % 4)) / 0.7f;
      out.Put(logits[i]);
    }
    const float max = MaxOf(logits, kTokens);
    const uint64_t total = WeightSum(logits, kTokens, max);
    const double log_sum = LogSumExp(max, total);
    out.Put(total);
    out.Put(log_sum);
    double chain = 0.0;
    for (int i = 0; i < kTokens; ++i) {
      const float logprob = LogProb(logits[i], log_sum);
      out.Put(SampleWeight(logits[i], max));
      out.Put(logprob);
      chain = EntropyStep(chain, SampleWeight(logits[i], max), logprob);
    }
    const double entropy = chain / static_cast<double>(total);
    out.Put(entropy);
    out.Put(Atypicality(LogProb(logits[item], log_sum), entropy));
  }
};

// A model of two layers over a few tokens: every kind of step, in its place.
struct SmallModel {
  static constexpr int kWidth = 256;
  static constexpr int kHeads = 4;
  static constexpr int kKvHeads = 2;
  static constexpr int kDim = 64;
  static constexpr int kQkv = (kHeads + 2 * kKvHeads) * kDim;
  static constexpr int kFeed = 512;
  static constexpr int kTokens = 128;
  static constexpr int kLayers = 2;
  static constexpr int kPositions = 8;
  static constexpr int64_t kFirst = 252;  // so that the positions cross the edge of a split
};

template <class Block>
FAK_HD FAK_NOINLINE inline float ModelOutput(uint64_t stream, int row, int n, const float* x) {
  constexpr int kBlock = ActivationBlock(Block::kType);
  Block weights[SmallModel::kFeed / kBlock];
  FillWeights(kModel, stream + static_cast<uint64_t>(row), n / kBlock, weights);
  int8_t q[SmallModel::kFeed];
  float scales[SmallModel::kFeed / kBlock];
  QuantiseRow(x, n, kBlock, q, scales);
  return Dot(weights, n, {q, scales});
}

FAK_HD inline float ModelOutput(int type, uint64_t stream, int row, int n, const float* x) {
  switch (type) {
    case 0: return ModelOutput<BlockQ4K>(stream, row, n, x);
    case 1: return ModelOutput<BlockQ6K>(stream, row, n, x);
    case 2: return ModelOutput<BlockQ4_1>(stream, row, n, x);
    default: return ModelOutput<BlockQ8_0>(stream, row, n, x);
  }
}

FAK_HD FAK_NOINLINE inline void ModelProduct(int type, uint64_t stream, int rows, int n,
                                             const float* x, float* y) {
  for (int row = 0; row < rows; ++row) {
    y[row] = ModelOutput(type, stream, row, n, x);
  }
}

// Norm weights about 1.
FAK_HD inline void ModelNorm(uint64_t stream, int n, const float* x, float* y) {
  float weight[SmallModel::kWidth];
  for (int i = 0; i < n; ++i) {
    weight[i] = 1.0f + Value(kOrdinary, stream, static_cast<uint64_t>(i)) * 0.0625f;
  }
  RmsNorm(x, weight, n, 1e-5f, y);
}

struct ModelKv {
  uint16_t key[SmallModel::kPositions][SmallModel::kKvHeads * SmallModel::kDim];
  uint16_t value[SmallModel::kPositions][SmallModel::kKvHeads * SmallModel::kDim];
};

struct ModelCase {
  using M = SmallModel;
  static constexpr const char* kName = "small_model";
  static constexpr int kItems = 4;

  FAK_HD static void Run(int item, Sink& out) {
    ModelKv kv[M::kLayers];
    uint64_t token = Draw(90000, static_cast<uint64_t>(item)) % M::kTokens;
    for (int step = 0; step < M::kPositions; ++step) {
      float x[M::kWidth];
      for (int i = 0; i < M::kWidth; ++i) {
        BlockQ4_1 block;
        FillWeights(kModel, 91000 + 64 * token + static_cast<uint64_t>(i / 32), 1, &block);
        x[i] = BlockElement32(block, i % 32) * EmbeddingScale(M::kWidth);
      }
      for (int layer = 0; layer < M::kLayers; ++layer) {
        Layer(item, layer, step, kv[layer], x);
      }
      ModelNorm(99000, M::kWidth, x, x);
      float logits[M::kTokens];
      ModelProduct(1, 92000, M::kTokens, M::kWidth, x, logits);
      out.Put(logits, M::kTokens);
      token = static_cast<uint64_t>(ArgMax(logits, M::kTokens));
    }
    for (int layer = 0; layer < M::kLayers; ++layer) {
      for (int t = 0; t < M::kPositions; ++t) {
        for (int e = 0; e < M::kKvHeads * M::kDim; ++e) {
          out.PutF16(kv[layer].key[t][e]);
          out.PutF16(kv[layer].value[t][e]);
        }
      }
    }
  }

  FAK_HD static void Layer(int item, int layer, int step, ModelKv& kv, float* x) {
    const uint64_t stream = 100000 + 10000 * static_cast<uint64_t>(layer);
    // Items 0 and 1: K-quants in layer 0; 2 and 3: the 32-wide types there.
    const int first = (layer + item / 2) % 2 == 0 ? 0 : 2;
    float h[M::kWidth];
    float qkv[M::kQkv];
    ModelNorm(stream, M::kWidth, x, h);
    ModelProduct(first, stream + 1000, M::kQkv, M::kWidth, h, qkv);
    Heads(stream, layer, step, kv, qkv);
    float attended[M::kHeads * M::kDim];
    for (int head = 0; head < M::kHeads; ++head) {
      const int shared = head / (M::kHeads / M::kKvHeads) * M::kDim;
      const auto key = [&](int64_t t, int e) {
        return F16ToF32(kv.key[t - M::kFirst][shared + e]);
      };
      const auto value = [&](int64_t t, int e) {
        return F16ToF32(kv.value[t - M::kFirst][shared + e]);
      };
      Attend(qkv + head * M::kDim, M::kDim, M::kFirst, M::kFirst + step + 1,
             PlainScore(InverseSqrt(M::kDim)), key, value, attended + head * M::kDim);
    }
    ModelProduct(first + 1, stream + 2000, M::kWidth, M::kWidth, attended, h);
    for (int i = 0; i < M::kWidth; ++i) {
      x[i] = AddResidual(x[i], h[i]);
    }
    ModelNorm(stream + 3000, M::kWidth, x, h);
    float gate[M::kFeed];
    float up[M::kFeed];
    ModelProduct(first, stream + 4000, M::kFeed, M::kWidth, h, gate);
    ModelProduct(first, stream + 5000, M::kFeed, M::kWidth, h, up);
    for (int i = 0; i < M::kFeed; ++i) {
      gate[i] = layer == 0 ? SiluGate(gate[i], up[i]) : GeluGate(gate[i], up[i]);
    }
    ModelProduct(first + 1, stream + 6000, M::kWidth, M::kFeed, gate, h);
    for (int i = 0; i < M::kWidth; ++i) {
      x[i] = AddResidual(x[i], h[i]);
    }
  }

  // Norms (layer 1) and rotates q and k, stores k and v.
  FAK_HD static void Heads(uint64_t stream, int layer, int step, ModelKv& kv, float* qkv) {
    RopeScaling rope;
    rope.dims = M::kDim;
    RopeEntry table[M::kDim / 2];
    for (int i = 0; i < M::kDim / 2; ++i) {
      table[i] = RopeTableEntry(M::kFirst + step, RopeFrequency(rope, i, 1.0), 1.0);
    }
    for (int head = 0; head < M::kHeads + M::kKvHeads; ++head) {
      float* values = qkv + head * M::kDim;
      if (layer == 1) {
        ModelNorm(stream + 7000, M::kDim, values, values);
      }
      Rotate(values, M::kDim, layer == 0, table);
    }
    const float* key = qkv + M::kHeads * M::kDim;
    const float* value = key + M::kKvHeads * M::kDim;
    for (int e = 0; e < M::kKvHeads * M::kDim; ++e) {
      kv.key[step][e] = StoreKvF16(key[e]).bits;
      kv.value[step][e] = StoreKvF16(value[e]).bits;
    }
  }
};

}  // namespace fak::vectors

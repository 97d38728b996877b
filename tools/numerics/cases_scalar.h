#pragma once

#include "inputs.h"
#include "tensor/spec/all.h"

// Test vectors of the rules on single values and rows: 1 to 4, 7, 8, 9 and 11's float part.
namespace fak::vectors {

struct F16ToF32Case {
  static constexpr const char* kName = "f16_to_f32";
  static constexpr int kItems = 65536;
  FAK_HD static void Run(int item, Sink& out) { out.Put(F16ToF32(static_cast<uint16_t>(item))); }
};

struct Bf16ToF32Case {
  static constexpr const char* kName = "bf16_to_f32";
  static constexpr int kItems = 65536;
  FAK_HD static void Run(int item, Sink& out) { out.Put(Bf16ToF32(static_cast<uint16_t>(item))); }
};

// Every middle between two neighbours, and the floats beside it; then the sweep.
struct F32ToF16Case {
  static constexpr const char* kName = "f32_to_f16";
  static constexpr int kItems = kSweep;
  FAK_HD static void Run(int item, Sink& out) {
    if ((item & 0x7fff) < 0x7bff) {
      const float low = F16ToF32(static_cast<uint16_t>(item & 0xffff));
      const float high = F16ToF32(static_cast<uint16_t>((item & 0xffff) + 1));
      const uint32_t middle = BitsOf((low + high) * 0.5f);
      for (uint32_t step = 0; step < 3; ++step) {
        out.PutF16(F32ToF16(FloatOf(middle + step - 1)));
      }
    }
    out.PutF16(F32ToF16(Sweep(1, static_cast<uint64_t>(item))));
  }
};

struct F32ToBf16Case {
  static constexpr const char* kName = "f32_to_bf16";
  static constexpr int kItems = kSweep;
  FAK_HD static void Run(int item, Sink& out) {
    const uint32_t middle = (static_cast<uint32_t>(item & 0xffff) << 16) | 0x8000u;
    for (uint32_t step = 0; step < 3; ++step) {
      out.PutBf16(F32ToBf16(FloatOf(middle + step - 1)));
    }
    out.PutBf16(F32ToBf16(Sweep(2, static_cast<uint64_t>(item))));
  }
};

struct StoreKvCase {
  static constexpr const char* kName = "store_kv";
  static constexpr int kItems = kSweep;
  FAK_HD static void Run(int item, Sink& out) {
    const uint32_t low = static_cast<uint32_t>(item) & 0xffffu;
    const uint32_t sign = static_cast<uint32_t>(item) >> 16 << 31;
    const float values[3] = {FloatOf(sign | (0x477f8000u + low)), FloatOf(sign | 0x7f7f0000u | low),
                             Sweep(3, static_cast<uint64_t>(item))};
    for (const float x : values) {
      const StoredKv half = StoreKvF16(x);
      out.PutF16(half.bits);
      out.PutInt(half.clamped ? 1 : 0);
      const StoredKv brain = StoreKvBf16(x);
      out.PutBf16(brain.bits);
      out.PutInt(brain.clamped ? 1 : 0);
    }
  }
};

struct ConvertCase {
  static constexpr const char* kName = "int_and_f64_to_float";
  static constexpr int kItems = 4096;
  FAK_HD static void Run(int item, Sink& out) {
    const uint64_t u = Draw(4, static_cast<uint64_t>(item));
    out.Put(static_cast<float>(static_cast<int32_t>(u >> 32)));
    out.Put(static_cast<double>(u >> (item % 40)));
    out.Put(static_cast<float>(
        DoubleOf((u & 0x800fffffffffffffu) | (static_cast<uint64_t>(870 + item % 300) << 52))));
  }
};

struct NonFiniteCase {
  static constexpr const char* kName = "non_finite";
  static constexpr int kItems = kSweep;
  FAK_HD static void Run(int item, Sink& out) {
    out.PutInt(IsNonFinite(Sweep(5, static_cast<uint64_t>(item))) ? 1 : 0);
  }
};

struct TreeCase {
  static constexpr const char* kName = "tree16";
  static constexpr int kItems = kKinds * 64;
  FAK_HD static void Run(int item, Sink& out) {
    float lanes[kLanes];
    Fill(item % kKinds, 100 + static_cast<uint64_t>(item), kLanes, lanes);
    out.Put(Tree16(lanes));
  }
};

struct LaneSumCase {
  static constexpr const char* kName = "lane_sum";
  static constexpr int kItems = kKinds * kLengthCount;
  FAK_HD static void Run(int item, Sink& out) {
    const int n = Length(item / kKinds);
    float x[kLengthMax] = {};
    Fill(item % kKinds, 1000 + static_cast<uint64_t>(item), n, x);
    out.Put(LaneSum(x, n));
    out.Put(LaneSumOfSquares(x, n));
    out.Put(SumOfSquares(x, n));
  }
};

struct RmsNormCase {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kItems = kKinds * kLengthCount;
  FAK_HD static void Run(int item, Sink& out) {
    const int n = Length(item / kKinds);
    const float eps = item % 3 == 0 ? 1e-5f : item % 3 == 1 ? 1e-6f : 0.0f;
    float x[kLengthMax] = {};
    float weight[kLengthMax] = {};
    Fill(item % kKinds, 2000 + static_cast<uint64_t>(item), n, x);
    Fill(kOrdinary, 3000 + static_cast<uint64_t>(item), n, weight);
    RmsNorm(x, weight, n, eps, x);
    out.Put(x, n);
  }
};

template <int kBlock>
struct QuantiseCase {
  static constexpr const char* kName = kBlock == 32 ? "quantise_32" : "quantise_256";
  static constexpr int kItems = kKinds * kLengthCount * 2;
  FAK_HD static void Run(int item, Sink& out) {
    const int n = Length(item / kKinds % kLengthCount);
    float x[kLengthMax] = {};
    int8_t q[kLengthMax];
    float scales[kLengthMax / 32 + 1];
    Fill(item % kKinds, 4000 + static_cast<uint64_t>(item), n, x);
    QuantiseRow(x, n, kBlock, q, scales);
    for (int i = 0; i < n; ++i) {
      out.PutInt(q[i]);
    }
    out.Put(scales, (n + kBlock - 1) / kBlock);
  }
};

// Activations a hair from the middle between two int8 values.
struct QuantiseTiesCase {
  static constexpr const char* kName = "quantise_ties";
  static constexpr int kItems = 512;
  FAK_HD static void Run(int item, Sink& out) {
    const uint64_t stream = 5000 + static_cast<uint64_t>(item);
    float x[32];
    int8_t q[32];
    x[0] = 1.0f + Ordinary(Draw(stream, 0)) * 0.125f;
    for (int i = 1; i < 32; ++i) {
      const uint64_t u = Draw(stream, static_cast<uint64_t>(i));
      const float middle = x[0] * (static_cast<float>(2 * (u % 127) + 1) / 254.0f);
      x[i] = FloatOf(BitsOf(middle) + static_cast<uint32_t>((u >> 8) % 3) - 1);
    }
    out.Put(QuantiseBlock(x, 32, q));
    for (int i = 0; i < 32; ++i) {
      out.PutInt(q[i]);
    }
  }
};

// One f32 function on the sweep and on [-128, 128).
template <class Function>
struct FunctionCase {
  static constexpr const char* kName = Function::kName;
  static constexpr int kItems = kSweep;
  FAK_HD static void Run(int item, Sink& out) {
    const uint64_t i = static_cast<uint64_t>(item);
    out.Put(Function::Of(Sweep(6, i)));
    out.Put(Function::Of(Ordinary(Draw(7, i)) * 32.0f));
  }
};
struct Exp2Function {
  static constexpr const char* kName = "exp2";
  FAK_HD static float Of(float x) { return Exp2(x); }
};
struct ExpFunction {
  static constexpr const char* kName = "exp";
  FAK_HD static float Of(float x) { return Exp(x); }
};
struct SiluFunction {
  static constexpr const char* kName = "silu_gate";
  FAK_HD static float Of(float x) { return SiluGate(x, 0.7f); }
};
struct GeluFunction {
  static constexpr const char* kName = "gelu_gate";
  FAK_HD static float Of(float x) { return GeluGate(x, 0.7f); }
};
struct TanhFunction {
  static constexpr const char* kName = "tanh";
  FAK_HD static float Of(float x) { return Tanh(x * 0.0625f); }
};
struct SoftCapFunction {
  static constexpr const char* kName = "soft_cap";
  FAK_HD static float Of(float x) { return SoftCap(x, 30.0f, 1.0f / 30.0f); }
};

// All of them where their definition changes, and the polynomial where its last terms matter.
struct EdgesCase {
  static constexpr const char* kName = "function_edges";
  static constexpr int kItems = 8 * 3 * 2;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr float kEdges[8] = {125.0f, 128.0f, 86.5f, 88.72f, 0.625f, 0.5f, 0.0f, 200.0f};
    const uint32_t bits = BitsOf(kEdges[item / 6]) + static_cast<uint32_t>(item / 2 % 3);
    const float x = FloatOf((bits - (bits == 0 ? 0 : 1)) ^ (item % 2 != 0 ? kSignBit : 0));
    const float values[6] = {Exp2(x),           Exp(x),  SiluGate(x, 1.0f),
                             GeluGate(x, 1.0f), Tanh(x), SoftCap(x, 50.0f, 1.0f / 50.0f)};
    out.Put(values, 6);
    out.Put(FloatOf(Exp2FractionBits(Ordinary(Draw(9, static_cast<uint64_t>(item))) * 64.0f)));
  }
};

struct Functions64Case {
  static constexpr const char* kName = "functions_f64";
  static constexpr int kItems = 1024;
  FAK_HD static void Run(int item, Sink& out) {
    const uint64_t u = Draw(8, static_cast<uint64_t>(item));
    const uint64_t mantissa = u >> 12;
    // Over all exponents for every fourth item, else within a factor of 16 of 1.
    const uint64_t exponent = item % 4 == 0 ? u % 2046 + 1 : 1019 + u % 8;
    const double x = DoubleOf((exponent << 52) | mantissa);
    out.Put(Log64(x));
    const double y = static_cast<double>(static_cast<int64_t>(u) >> 12);  // ±2^51
    out.Put(Exp64(y * 0x1p-42));
    out.Put(Pow64(1e4 + static_cast<double>(item), y * 0x1p-51));
    const SinCos64 angle = SinCos(y * (item % 2 == 0 ? 0x1p-48 : 0x1p-22));
    out.Put(angle.sin);
    out.Put(angle.cos);
  }
};

inline constexpr int kRopeSets = 6;
FAK_HD inline RopeScaling RopeSet(int set) {
  RopeScaling rope;
  rope.dims = set == 0 ? 64 : set == 1 ? 128 : set == 2 ? 80 : 64;
  rope.base = set == 0 ? 1e4 : set == 1 ? 1e6 : 5e5;
  rope.factor = set < 2 || set == 5 ? 1.0 : set == 2 ? 8.0 : 4.0;
  rope.yarn = set == 3 || set == 4;
  rope.original_context = set == 3 ? 32768.0 : 4096.0;
  if (set == 4) {
    rope.yarn_ext = 0.5;
    rope.yarn_attention = 0.875;
    rope.yarn_beta_fast = 16.0;
    rope.yarn_beta_slow = 2.0;
  }
  return rope;
}
// Set 5 has divisors as llama 3 files do.
FAK_HD inline double RopeDivisor(int set, int pair) {
  return set == 5 ? 1.0 + 0.25 * static_cast<double>(pair) : 1.0;
}

struct RopeTableCase {
  static constexpr const char* kName = "rope_table";
  static constexpr int kItems = kRopeSets * 6;
  FAK_HD static void Run(int item, Sink& out) {
    constexpr int kPositions[6] = {0, 1, 7, 255, 4096, 1000003};
    const int set = item % kRopeSets;
    const RopeScaling rope = RopeSet(set);
    const double magnitude = RopeMagnitude(rope);
    out.Put(magnitude);
    for (int i = 0; i < rope.dims / 2; ++i) {
      const double frequency = RopeFrequency(rope, i, RopeDivisor(set, i));
      const RopeEntry entry = RopeTableEntry(kPositions[item / kRopeSets], frequency, magnitude);
      out.Put(frequency);
      out.Put(entry.cos);
      out.Put(entry.sin);
    }
  }
};

struct RotateCase {
  static constexpr const char* kName = "rotate";
  static constexpr int kItems = kKinds * 4;
  FAK_HD static void Run(int item, Sink& out) {
    const int kind = item % kKinds;
    const bool adjacent = item / kKinds % 2 != 0;
    const int dims = item / kKinds / 2 != 0 ? 64 : 80;
    float head[80];
    RopeEntry table[40];
    Fill(kind, 9000 + static_cast<uint64_t>(item), 80, head);
    for (int i = 0; i < 40; ++i) {
      const uint64_t index = static_cast<uint64_t>(i);
      table[i].cos = Value(kOrdinary, 9500 + static_cast<uint64_t>(item), 2 * index) * 0.25f;
      table[i].sin = Value(kMixed, 9500 + static_cast<uint64_t>(item), 2 * index + 1) * 0.25f;
    }
    Rotate(head, dims, adjacent, table);
    out.Put(head, 80);
  }
};

}  // namespace fak::vectors

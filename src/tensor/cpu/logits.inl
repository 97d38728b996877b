// Rule 12's passes over a vocabulary. Included inside an ISA's namespace.

// The largest of n values; NaNs are passed over.
FAK_VEC float LargestOf(const float* x, uint32_t n) {
  F32x16 a = Splat16(-__builtin_inff());
  F32x16 b = a;
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    a = Max(F32x16::Load(x + i), a);
    b = Max(F32x16::Load(x + i + 16), b);
  }
  float largest = LargestLane(Max(a, b));
  for (; i < n; ++i) {
    largest = x[i] > largest ? x[i] : largest;
  }
  return largest;
}

inline float MaxOf(const float* x, uint32_t n) {
  return LargestOf(x, n);
}

inline uint32_t ArgMax(const float* x, uint32_t n) {
  constexpr uint32_t kStep = 512;
  float largest = -__builtin_inff();
  uint32_t first = 0;  // of the first step that holds it
  for (uint32_t i = 0; i < n; i += kStep) {
    const float here = LargestOf(x + i, n - i < kStep ? n - i : kStep);
    if (here > largest) {
      largest = here;
      first = i;
    }
  }
  for (uint32_t i = first; i < n; ++i) {
    if (x[i] == largest) {
      return i;
    }
  }
  return 0;
}

inline void DivideRow(const float* x, float divisor, uint32_t n, float* y) {
  MapRow(x, n, y, [divisor](F32x16 v) { return Div(v, Splat16(divisor)); });
}

// Largest integer <= x, for 0 <= x < 2^22.
FAK_VEC F32x16 Floor(F32x16 x) {
  const F32x16 nearest = Sub(Add(x, Splat16(kMagic)), Splat16(kMagic));
  return SelectLess(x, nearest, Sub(nearest, Splat16(1.0f)), nearest);
}

// A weight, floor(exp(x - max) · 2^40), in two integers of at most 2^20: high · 2^20 + low.
struct WeightParts {
  I32x16 high;
  I32x16 low;
};
FAK_VEC I32x16 ToInteger(F32x16 whole) {
  return And(Bits(Add(whole, Splat16(kMagic))), I32x16::Splat(0x3fffff));
}
FAK_VEC WeightParts WeightOf(F32x16 x, float max) {
  const F32x16 scaled = Mul(Exp(Sub(x, Splat16(max))), Splat16(0x1p20f));
  const F32x16 high = Floor(scaled);
  // Exact: the difference has no more bits than what it was taken from.
  const F32x16 low = Floor(Mul(Sub(scaled, high), Splat16(0x1p20f)));
  return {ToInteger(high), ToInteger(low)};
}

FAK_VEC uint64_t WeightOfLane(const int32_t* high, const int32_t* low, int lane) {
  return (static_cast<uint64_t>(high[lane]) << 20) + static_cast<uint64_t>(low[lane]);
}

inline void Weights(const float* x, float max, uint32_t n, uint64_t* out) {
  alignas(64) int32_t high[16];
  alignas(64) int32_t low[16];
  const auto put = [&](F32x16 v, uint32_t i, int count) {
    const WeightParts parts = WeightOf(v, max);
    parts.high.Store(high);
    parts.low.Store(low);
    for (int lane = 0; lane < count; ++lane) {
      out[i + static_cast<uint32_t>(lane)] = WeightOfLane(high, low, lane);
    }
  };
  Walk(
      n, [&](uint32_t i) { put(F32x16::Load(x + i), i, 16); },
      [&](uint32_t i, int left) { put(LoadPartial<F32x16>(x + i, left), i, left); });
}

inline uint64_t WeightSum(const float* x, float max, uint32_t n) {
  // 1024 terms of at most 2^20 fit a lane.
  constexpr uint32_t kStep = 1024 * 16;
  alignas(64) int32_t high[16];
  alignas(64) int32_t low[16];
  uint64_t sum = 0;
  for (uint32_t first = 0; first < n; first += kStep) {
    const uint32_t count = (n - first < kStep ? n - first : kStep) / 16 * 16;
    WeightParts sums{I32x16::Zero(), I32x16::Zero()};
    for (uint32_t i = 0; i < count; i += 16) {
      const WeightParts parts = WeightOf(F32x16::Load(x + first + i), max);
      sums.high = Add(sums.high, parts.high);
      sums.low = Add(sums.low, parts.low);
    }
    sums.high.Store(high);
    sums.low.Store(low);
    for (int lane = 0; lane < 16; ++lane) {
      sum += WeightOfLane(high, low, lane);
    }
  }
  if (n % 16 != 0) {
    const int left = static_cast<int>(n % 16);
    const WeightParts parts = WeightOf(LoadPartial<F32x16>(x + n - n % 16, left), max);
    parts.high.Store(high);
    parts.low.Store(low);
    for (int lane = 0; lane < left; ++lane) {
      sum += WeightOfLane(high, low, lane);
    }
  }
  return sum;
}

inline uint32_t CountAbove(const float* x, float bound, uint32_t n) {
  I32x16 counts = I32x16::Zero();
  const F32x16 one = Float(I32x16::Splat(1));  // the integer, as bits
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    counts =
        Add(counts, Bits(SelectLess(Splat16(bound), F32x16::Load(x + i), one, F32x16::Zero())));
  }
  auto count = static_cast<uint32_t>(ReduceAdd(counts));
  for (; i < n; ++i) {
    count += x[i] > bound ? 1 : 0;
  }
  return count;
}

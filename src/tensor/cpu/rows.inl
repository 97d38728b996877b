// Rules 1, 2, 3, 8, 9 over rows. Included inside an ISA's namespace.

// Calls whole(i) for every 16 elements from i on, then tail(i, n) for n < 16 that are left.
template <class Whole, class Tail>
FAK_VEC void Walk(uint32_t n, Whole whole, Tail tail) {
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    whole(i);
  }
  if (i < n) {
    tail(i, static_cast<int>(n - i));
  }
}

// y[i] = map(x[i]), 16 at a time.
template <class Map>
FAK_VEC void MapRow(const float* x, uint32_t n, float* y, Map map) {
  Walk(
      n, [&](uint32_t i) { map(F32x16::Load(x + i)).Store(y + i); },
      [&](uint32_t i, int left) {
        StorePartial(map(LoadPartial<F32x16>(x + i, left)), y + i, left);
      });
}

// out[i] = map(x[i], y[i]).
template <class Map>
FAK_VEC void MapRows(const float* x, const float* y, uint32_t n, float* out, Map map) {
  Walk(
      n, [&](uint32_t i) { map(F32x16::Load(x + i), F32x16::Load(y + i)).Store(out + i); },
      [&](uint32_t i, int left) {
        StorePartial(map(LoadPartial<F32x16>(x + i, left), LoadPartial<F32x16>(y + i, left)),
                     out + i, left);
      });
}

// A lane that gets no element stays as it is: fma(0, 0, lane) is the lane, which is never -0.
FAK_VEC float SumOfSquares(const float* x, uint32_t n) {
  float total = 0.0f;
  for (uint32_t first = 0; first < n; first += 512) {
    F32x16 lanes = F32x16::Zero();
    const auto add = [&](F32x16 v) { lanes = Fma(v, v, lanes); };
    Walk(
        n - first < 512 ? n - first : 512, [&](uint32_t i) { add(F32x16::Load(x + first + i)); },
        [&](uint32_t i, int left) { add(LoadPartial<F32x16>(x + first + i, left)); });
    total = total + Tree16(lanes);
  }
  return total;
}

inline void RmsNorm(const float* x, const float* weight, uint32_t n, float eps, float* y) {
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const F32x16 r = Splat16(1.0f / __builtin_sqrtf(mean + eps));
  MapRows(x, weight, n, y, [&](F32x16 v, F32x16 w) { return Mul(Mul(v, r), w); });
}

FAK_VEC void RotatePair(float c, float s, float* first, float* second) {
  const float x = *first;
  const float y = *second;
  *first = __builtin_fmaf(x, c, -(y * s));
  *second = __builtin_fmaf(x, s, y * c);
}

inline void Rotate(RopeStyle style, const float* cos, const float* sin, uint32_t dims,
                   float* head) {
  const uint32_t half = dims / 2;
  if (style == RopeStyle::kAdjacent) {
    for (uint32_t i = 0; i < half; ++i) {
      RotatePair(cos[i], sin[i], head + 2 * i, head + 2 * i + 1);
    }
    return;
  }
  Walk(
      half,
      [&](uint32_t i) {
        const F32x16 c = F32x16::Load(cos + i);
        const F32x16 s = F32x16::Load(sin + i);
        const F32x16 x = F32x16::Load(head + i);
        const F32x16 y = F32x16::Load(head + half + i);
        Fma(x, c, Negative(Mul(y, s))).Store(head + i);
        Fma(x, s, Mul(y, c)).Store(head + half + i);
      },
      [&](uint32_t i, int) {
        for (; i < half; ++i) {
          RotatePair(cos[i], sin[i], head + i, head + half + i);
        }
      });
}

inline void Gate(Activation activation, const float* gate, const float* up, uint32_t n,
                 float* out) {
  if (activation == Activation::kSilu) {
    MapRows(gate, up, n, out, [](F32x16 g, F32x16 u) { return Mul(Silu(g), u); });
  } else {
    MapRows(gate, up, n, out, [](F32x16 g, F32x16 u) { return Mul(GeluTanh(g), u); });
  }
}

inline void AddRow(const float* y, uint32_t n, float* x) {
  MapRows(x, y, n, x, [](F32x16 a, F32x16 b) { return Add(a, b); });
}

inline void ScaleRow(float scale, uint32_t n, float* x) {
  MapRow(x, n, x, [scale](F32x16 v) { return Mul(v, Splat16(scale)); });
}

inline void AddScaledRow(float weight, const float* in, uint32_t n, float* y) {
  MapRows(in, y, n, y, [weight](F32x16 v, F32x16 sum) { return Fma(Splat16(weight), v, sum); });
}

inline bool AllFinite(const float* x, uint32_t n) {
  I32x16 largest = I32x16::Zero();
  Walk(
      n, [&](uint32_t i) { largest = Max(largest, Magnitude(F32x16::Load(x + i))); },
      [&](uint32_t i, int left) {
        largest = Max(largest, Magnitude(LoadPartial<F32x16>(x + i, left)));
      });
  return ReduceMax(largest) < 0x7f800000;
}

// Finite magnitudes from `limit` on become it; returns how many did.
FAK_VEC uint32_t ClampMagnitudes(int32_t beyond, int32_t limit, float* lanes, int n) {
  uint32_t clamped = 0;
  for (int i = 0; i < n; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, lanes + i, sizeof bits);
    const auto magnitude = static_cast<int32_t>(bits & 0x7fffffffu);
    if (magnitude > beyond && magnitude < 0x7f800000) {
      bits = (bits & 0x80000000u) | static_cast<uint32_t>(limit);
      __builtin_memcpy(lanes + i, &bits, sizeof bits);
      ++clamped;
    }
  }
  return clamped;
}

// Up to 16 values as f16 or bf16, clamped to its largest.
template <bool kF16>
FAK_VEC uint32_t ToHalf(F32x16 v, int n, uint16_t* out) {
  // 65504 is f16's largest; bits above 0x7f7f7fff would round to an infinite bf16.
  constexpr int32_t kBeyond = kF16 ? 0x477fe000 : 0x7f7f7fff;
  constexpr int32_t kLimit = kF16 ? 0x477fe000 : 0x7f7f0000;
  uint32_t clamped = 0;
  if (ReduceMax(Magnitude(v)) > kBeyond) {
    alignas(64) float lanes[16];
    v.Store(lanes);
    clamped = ClampMagnitudes(kBeyond, kLimit, lanes, n);
    v = F32x16::Load(lanes);
  }
  if constexpr (kF16) {
    v.StoreF16(out);
  } else {
    v.StoreBf16(out);
  }
  return clamped;
}

template <bool kF16>
FAK_VEC uint32_t StoreHalves(const float* x, uint32_t n, uint32_t stride, uint16_t* out) {
  uint32_t clamped = 0;
  alignas(32) uint16_t halves[16];
  const auto scatter = [&](uint32_t i, int count) {
    for (int j = 0; j < count; ++j) {
      out[(i + static_cast<uint32_t>(j)) * stride] = halves[j];
    }
  };
  Walk(
      n,
      [&](uint32_t i) {
        const F32x16 v = F32x16::Load(x + i);
        if (stride == 1) {
          clamped += ToHalf<kF16>(v, 16, out + i);
        } else {
          clamped += ToHalf<kF16>(v, 16, halves);
          scatter(i, 16);
        }
      },
      [&](uint32_t i, int left) {
        clamped += ToHalf<kF16>(LoadPartial<F32x16>(x + i, left), left, halves);
        scatter(i, left);
      });
  return clamped;
}

inline uint32_t StoreKv(KvType type, const float* x, uint32_t n, uint32_t stride, std::byte* out) {
  if (type == KvType::kF16) {
    return StoreHalves<true>(x, n, stride, reinterpret_cast<uint16_t*>(out));
  }
  if (type == KvType::kBf16) {
    return StoreHalves<false>(x, n, stride, reinterpret_cast<uint16_t*>(out));
  }
  auto* const floats = reinterpret_cast<float*>(out);
  for (uint32_t i = 0; i < n; ++i) {
    floats[i * stride] = x[i];
  }
  return 0;
}

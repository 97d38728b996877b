// 16 lanes out of native vectors. Included at the end of each vec_*.h, inside its namespace.

template <class V>
struct Vec16 {
  using Element = typename V::Element;
  static constexpr int kParts = 16 / kLanes;

  static FAK_VEC Vec16 Zero() {
    Vec16 r;
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = V::Zero();
    }
    return r;
  }
  static FAK_VEC Vec16 Splat(Element x) {
    Vec16 r;
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = V::Splat(x);
    }
    return r;
  }
  static FAK_VEC Vec16 Load(const Element* p) {
    Vec16 r;
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = V::Load(p + i * kLanes);
    }
    return r;
  }
  static FAK_VEC Vec16 LoadF16(const uint16_t* p) {
    Vec16 r;
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = V::LoadF16(p + i * kLanes);
    }
    return r;
  }
  static FAK_VEC Vec16 LoadBf16(const uint16_t* p) {
    Vec16 r;
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = V::LoadBf16(p + i * kLanes);
    }
    return r;
  }
  FAK_VEC void Store(Element* p) const {
    for (int i = 0; i < kParts; ++i) {
      part[i].Store(p + i * kLanes);
    }
  }
  FAK_VEC void StoreF16(uint16_t* p) const {
    for (int i = 0; i < kParts; ++i) {
      part[i].StoreF16(p + i * kLanes);
    }
  }
  FAK_VEC void StoreBf16(uint16_t* p) const {
    for (int i = 0; i < kParts; ++i) {
      part[i].StoreBf16(p + i * kLanes);
    }
  }
  FAK_VEC void StoreLowBytes(int8_t* p) const {
    for (int i = 0; i < kParts; ++i) {
      part[i].StoreLowBytes(p + i * kLanes);
    }
  }

  V part[kParts];
};

// One native vector is enough where it has 16 lanes.
template <class V, bool kWhole = kLanes == 16>
struct SixteenOf {
  using Type = Vec16<V>;
};
template <class V>
struct SixteenOf<V, true> {
  using Type = V;
};
using F32x16 = SixteenOf<F32>::Type;
using I32x16 = SixteenOf<I32>::Type;

#define FAK_VEC16_UNARY(Name, From, To)             \
  FAK_VEC Vec16<To> Name(Vec16<From> a) {           \
    Vec16<To> r;                                    \
    for (int i = 0; i < Vec16<From>::kParts; ++i) { \
      r.part[i] = Name(a.part[i]);                  \
    }                                               \
    return r;                                       \
  }
FAK_VEC16_UNARY(Sqrt, F32, F32)
FAK_VEC16_UNARY(Bits, F32, I32)
FAK_VEC16_UNARY(Float, I32, F32)
FAK_VEC16_UNARY(ToFloat, I32, F32)
#undef FAK_VEC16_UNARY

#define FAK_VEC16_BINARY(Name, V)                 \
  FAK_VEC Vec16<V> Name(Vec16<V> a, Vec16<V> b) { \
    for (int i = 0; i < Vec16<V>::kParts; ++i) {  \
      a.part[i] = Name(a.part[i], b.part[i]);     \
    }                                             \
    return a;                                     \
  }
FAK_VEC16_BINARY(Add, F32)
FAK_VEC16_BINARY(Sub, F32)
FAK_VEC16_BINARY(Mul, F32)
FAK_VEC16_BINARY(Div, F32)
FAK_VEC16_BINARY(Max, F32)
FAK_VEC16_BINARY(Add, I32)
FAK_VEC16_BINARY(Sub, I32)
FAK_VEC16_BINARY(Mul, I32)
FAK_VEC16_BINARY(Max, I32)
FAK_VEC16_BINARY(And, I32)
FAK_VEC16_BINARY(Or, I32)
FAK_VEC16_BINARY(Xor, I32)
#undef FAK_VEC16_BINARY

#define FAK_VEC16_SHIFT(Name)                      \
  template <int kCount>                            \
  FAK_VEC Vec16<I32> Name(Vec16<I32> a) {          \
    for (int i = 0; i < Vec16<I32>::kParts; ++i) { \
      a.part[i] = Name<kCount>(a.part[i]);         \
    }                                              \
    return a;                                      \
  }
FAK_VEC16_SHIFT(ShiftLeft)
FAK_VEC16_SHIFT(ShiftRight)
FAK_VEC16_SHIFT(ShiftRightSigned)
#undef FAK_VEC16_SHIFT

FAK_VEC Vec16<F32> Fma(Vec16<F32> a, Vec16<F32> b, Vec16<F32> c) {
  for (int i = 0; i < Vec16<F32>::kParts; ++i) {
    c.part[i] = Fma(a.part[i], b.part[i], c.part[i]);
  }
  return c;
}

FAK_VEC Vec16<F32> SelectLess(Vec16<F32> a, Vec16<F32> b, Vec16<F32> t, Vec16<F32> f) {
  for (int i = 0; i < Vec16<F32>::kParts; ++i) {
    f.part[i] = SelectLess(a.part[i], b.part[i], t.part[i], f.part[i]);
  }
  return f;
}

template <class T>
FAK_VEC T LoadPartial(const typename T::Element* p, int n) {
  alignas(64) typename T::Element lanes[16] = {};
  __builtin_memcpy(lanes, p, static_cast<unsigned>(n) * sizeof lanes[0]);
  return T::Load(lanes);
}

template <class T>
FAK_VEC void StorePartial(T v, typename T::Element* p, int n) {
  alignas(64) typename T::Element lanes[16];
  v.Store(lanes);
  __builtin_memcpy(p, lanes, static_cast<unsigned>(n) * sizeof lanes[0]);
}

FAK_VEC float Tree16(F32x16 v) {
  alignas(64) float lanes[16];
  v.Store(lanes);
  float b[4];
  for (int i = 0; i < 4; ++i) {
    b[i] = (lanes[i] + lanes[i + 8]) + (lanes[i + 4] + lanes[i + 12]);
  }
  return (b[0] + b[2]) + (b[1] + b[3]);
}

FAK_VEC int32_t ReduceMax(I32x16 v) {
  alignas(64) int32_t lanes[16];
  v.Store(lanes);
  int32_t max = lanes[0];
  for (int i = 1; i < 16; ++i) {
    max = lanes[i] > max ? lanes[i] : max;
  }
  return max;
}

FAK_VEC int32_t ReduceAdd(I32x16 v) {
  alignas(64) int32_t lanes[16];
  v.Store(lanes);
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    sum += lanes[i];
  }
  return sum;
}

// The weight types, as matmul_kernels.inl sees them. A chunk's words (layout.h) become, block by
// block of 32 elements (j of the chunk's 8), vectors w[0..7]: lane by lane, w[g] holds the 4
// weights of elements 4 g ... 4 g + 3, as signed bytes or as unsigned ones. What was added to make
// them unsigned, times minus Σ q, is where their sums start.

FAK_VEC Bytes Word(const std::byte* words, int i) {
  return Bytes::Load(words + 64 * i);
}
// 4 words of nibbles: low halves are elements 0 to 15, high halves 16 to 31.
FAK_VEC void UnpackNibbles(const std::byte* words, Bytes (&w)[8]) {
  const Bytes low = Bytes::Splat(15);
  FAK_UNROLL
  for (int v = 0; v < 4; ++v) {
    const Bytes both = Word(words, v);
    w[v] = And(both, low);
    w[v + 4] = And(Shift<-4>(both), low);
  }
}
FAK_VEC void UnpackIq4(const std::byte* words, SignedBytes (&w)[8]) {
  static constexpr int8_t kCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
  Bytes index[8];
  UnpackNibbles(words, index);
  FAK_UNROLL
  for (int g = 0; g < 8; ++g) {
    w[g] = Lookup(kCodes, index[g]);
  }
}

template <int kOffset>
FAK_VEC I32 Start32(const Record32& x, int j) {
  static_assert(kOffset == 0 || kOffset == 8 || kOffset == 16 || kOffset == 128);
  if constexpr (kOffset == 8) {
    return I32::Splat(x.sum_by_8[j]);
  } else if constexpr (kOffset == 16) {
    return I32::Splat(x.sum_by_16[j]);
  } else if constexpr (kOffset == 128) {
    return I32::Splat(x.sum_by_128[j]);
  } else {
    return I32::Zero();
  }
}

// The scales of a chunk as floats, one row of 16 lanes a block.
struct alignas(64) Scales32 {
  float d[8][16];
  float m[8][16];
};

template <DType kType, class W, int kMaxWeight>
struct Format32 {
  static constexpr DType kDType = kType;
  using Scales = Scales32;
  using Record = Record32;
  static constexpr uint32_t kBlock = 32;
  using Weights = W;
  static constexpr int kMax = kMaxWeight;
  static constexpr bool kMin = LayoutOf(kType).halves == 2;
};

// Q4_0, Q4_1
template <DType kType, int kOffset>
struct FourBits32 : Format32<kType, Bytes, 15> {
  static FAK_VEC void Unpack(const std::byte* words, int j, Bytes (&w)[8]) {
    UnpackNibbles(words + 64 * 4 * j, w);
  }
  static FAK_VEC I32 Start(const Record32& x, int j) { return Start32<kOffset>(x, j); }
};

// Q5_0, Q5_1
template <DType kType, int kOffset>
struct FiveBits32 : Format32<kType, Bytes, 31> {
  static FAK_VEC void Unpack(const std::byte* words, int j, Bytes (&w)[8]) {
    UnpackNibbles(words + 64 * (5 * j + 1), w);
    const Bytes fifths = Word(words, 5 * j);
    const Bytes bit = Bytes::Splat(16);
    w[0] = OrAnd(w[0], Shift<4>(fifths), bit);
    w[1] = OrAnd(w[1], Shift<3>(fifths), bit);
    w[2] = OrAnd(w[2], Shift<2>(fifths), bit);
    w[3] = OrAnd(w[3], Shift<1>(fifths), bit);
    w[4] = OrAnd(w[4], fifths, bit);
    w[5] = OrAnd(w[5], Shift<-1>(fifths), bit);
    w[6] = OrAnd(w[6], Shift<-2>(fifths), bit);
    w[7] = OrAnd(w[7], Shift<-3>(fifths), bit);
  }
  static FAK_VEC I32 Start(const Record32& x, int j) { return Start32<kOffset>(x, j); }
};

struct FormatQ8_0 : Format32<DType::kQ8_0, SignedBytes, 128> {
  static FAK_VEC void Unpack(const std::byte* words, int j, SignedBytes (&w)[8]) {
    FAK_UNROLL
    for (int g = 0; g < 8; ++g) {
      w[g] = SignedBytes::Of(Word(words, 8 * j + g));
    }
  }
  static FAK_VEC I32 Start(const Record32& x, int j) { return Start32<SignedBytes::kOffset>(x, j); }
};

struct FormatIq4Nl : Format32<DType::kIq4Nl, SignedBytes, 128> {
  static FAK_VEC void Unpack(const std::byte* words, int j, SignedBytes (&w)[8]) {
    UnpackIq4(words + 64 * 4 * j, w);
  }
  static FAK_VEC I32 Start(const Record32& x, int j) { return Start32<SignedBytes::kOffset>(x, j); }
};

// --- Blocks of 256. Blocks come in runs of kSteps: j = first + kStep, first a multiple of it. ---

// The scales of a chunk as integers, one row of 16 lanes each.
struct alignas(64) Scales256 {
  float d[16];
  float minus_dmin[16];
  int32_t scale[16][16];
  int32_t min_pair[8][16];  // minima 2 i (low half) and 2 i + 1
};

FAK_VEC I32 ScaleWord(const std::byte* words, int i) {
  return I32::Load(reinterpret_cast<const int32_t*>(words + 64 * i));
}
// Each byte of a << kCount (or >> -kCount), under a mask.
template <int kCount>
FAK_VEC I32 MaskBytes(I32 a, int mask) {
  const I32 bits = I32::Splat(mask * 0x01010101);
  if constexpr (kCount >= 0) {
    return And(ShiftLeft<kCount>(a), bits);
  } else {
    return And(ShiftRight<-kCount>(a), bits);
  }
}
// The 4 bytes of each lane to 4 rows of integers, less `less`.
FAK_VEC void SpreadBytes(I32 bytes, int less, int32_t* rows) {
  const I32 byte = I32::Splat(255);
  const I32 offset = I32::Splat(less);
  Sub(And(bytes, byte), offset).Store(rows);
  Sub(And(ShiftRight<8>(bytes), byte), offset).Store(rows + 16);
  Sub(And(ShiftRight<16>(bytes), byte), offset).Store(rows + 32);
  Sub(ShiftRight<24>(bytes), offset).Store(rows + 48);
}
FAK_VEC void SpreadSignedBytes(I32 bytes, int32_t* rows) {
  ShiftRightSigned<24>(ShiftLeft<24>(bytes)).Store(rows);
  ShiftRightSigned<24>(ShiftLeft<16>(bytes)).Store(rows + 16);
  ShiftRightSigned<24>(ShiftLeft<8>(bytes)).Store(rows + 32);
  ShiftRightSigned<24>(bytes).Store(rows + 48);
}
// The 4 bytes of each lane to 2 rows of pairs.
FAK_VEC void SpreadPairs(I32 bytes, int32_t* rows) {
  const I32 low = I32::Splat(255);
  const I32 high = I32::Splat(255 << 16);
  Or(And(bytes, low), And(ShiftLeft<8>(bytes), high)).Store(rows);
  Or(And(ShiftRight<16>(bytes), low), And(ShiftRight<8>(bytes), high)).Store(rows + 16);
}
// 8 scales and 8 minima of 6 bits, as Q4_K and Q5_K have them.
FAK_VEC void PrepareSixBits(const std::byte* words, int32_t* scale, int32_t* min_pair) {
  const I32 s0 = ScaleWord(words, 0);
  const I32 s1 = ScaleWord(words, 1);
  const I32 s2 = ScaleWord(words, 2);
  SpreadBytes(MaskBytes<0>(s0, 63), 0, scale);
  SpreadBytes(Or(MaskBytes<0>(s2, 15), MaskBytes<-2>(s0, 48)), 0, scale + 64);
  SpreadPairs(MaskBytes<0>(s1, 63), min_pair);
  SpreadPairs(Or(MaskBytes<-4>(s2, 15), MaskBytes<-2>(s1, 48)), min_pair + 32);
}

// What formats share: kSub elements have a scale; the integer sum is converted in kParts parts, and
// is kShift bits too high; Prepare() makes the scales out of the chunk's halves and words.
template <DType kType, class W, int kMaxWeight, int kSubElements, int kPartCount, int kStepCount,
          bool kHasMin>
struct Format256 {
  static constexpr DType kDType = kType;
  using Scales = Scales256;
  using Record = Record256;
  static constexpr uint32_t kBlock = 256;
  using Weights = W;
  static constexpr int kMax = kMaxWeight;
  static constexpr int kSub = kSubElements;
  static constexpr int kSumParts = kPartCount;
  static constexpr int kSteps = kStepCount;
  static constexpr bool kMin = kHasMin;
  static constexpr int kShift = 0;
  static FAK_VEC I32 Start(const Record256&, int) { return I32::Zero(); }
};

struct FormatQ2K : Format256<DType::kQ2K, Bytes, 3, 16, 1, 4, true> {
  static FAK_VEC void Prepare(const uint16_t*, const std::byte* words, int32_t* scale,
                              int32_t* min_pair) {
    for (int i = 0; i < 4; ++i) {
      const I32 both = ScaleWord(words, i);
      SpreadBytes(MaskBytes<0>(both, 15), 0, scale + 64 * i);
      SpreadPairs(MaskBytes<-4>(both, 15), min_pair + 32 * i);
    }
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int first, Bytes (&w)[8]) {
    FAK_UNROLL
    for (int v = 0; v < 8; ++v) {
      w[v] = And(Shift<-2 * kStep>(Word(words, 4 + 2 * first + v)), Bytes::Splat(3));
    }
  }
};

// Weights 0 to 7 times 8, so that they share Q6_K's offset of 32 (4 times 8).
struct FormatQ3K : Format256<DType::kQ3K, Bytes, 56, 16, 1, 8, false> {
  static constexpr int kShift = 3;
  static FAK_VEC I32 Start(const Record256& x, int sub) { return I32::Splat(x.sum16_by_32[sub]); }
  static FAK_VEC void Prepare(const uint16_t*, const std::byte* words, int32_t* scale, int32_t*) {
    const I32 s0 = ScaleWord(words, 0);
    const I32 s1 = ScaleWord(words, 1);
    const I32 s2 = ScaleWord(words, 2);
    SpreadBytes(Or(MaskBytes<0>(s0, 15), MaskBytes<4>(s2, 48)), 32, scale);
    SpreadBytes(Or(MaskBytes<0>(s1, 15), MaskBytes<2>(s2, 48)), 32, scale + 64);
    SpreadBytes(Or(MaskBytes<-4>(s0, 15), MaskBytes<0>(s2, 48)), 32, scale + 128);
    SpreadBytes(Or(MaskBytes<-4>(s1, 15), MaskBytes<-2>(s2, 48)), 32, scale + 192);
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int, Bytes (&w)[8]) {
    constexpr int kHalf = kStep / 4;
    constexpr int kQuarter = kStep % 4;
    FAK_UNROLL
    for (int v = 0; v < 8; ++v) {
      const Bytes low = Shift<3 - 2 * kQuarter>(Word(words, 11 + 8 * kHalf + v));
      const Bytes high = Shift<5 - kStep>(Word(words, 3 + v));
      w[v] = OrAnd(And(low, Bytes::Splat(24)), high, Bytes::Splat(32));
    }
  }
};

struct FormatQ4K : Format256<DType::kQ4K, Bytes, 15, 32, 2, 2, true> {
  static FAK_VEC void Prepare(const uint16_t*, const std::byte* words, int32_t* scale,
                              int32_t* min_pair) {
    PrepareSixBits(words, scale, min_pair);
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int first, Bytes (&w)[8]) {
    FAK_UNROLL
    for (int v = 0; v < 8; ++v) {
      w[v] = And(Shift<-4 * kStep>(Word(words, 3 + 4 * first + v)), Bytes::Splat(15));
    }
  }
};

struct FormatQ5K : Format256<DType::kQ5K, Bytes, 31, 32, 4, 8, true> {
  static FAK_VEC void Prepare(const uint16_t*, const std::byte* words, int32_t* scale,
                              int32_t* min_pair) {
    PrepareSixBits(words, scale, min_pair);
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int, Bytes (&w)[8]) {
    FAK_UNROLL
    for (int v = 0; v < 8; ++v) {
      const Bytes low = Shift<-4 * (kStep % 2)>(Word(words, 11 + 8 * (kStep / 2) + v));
      const Bytes high = Shift<4 - kStep>(Word(words, 3 + v));
      w[v] = OrAnd(And(low, Bytes::Splat(15)), high, Bytes::Splat(16));
    }
  }
};

struct FormatQ6K : Format256<DType::kQ6K, Bytes, 63, 16, 1, 4, false> {
  static FAK_VEC I32 Start(const Record256& x, int sub) { return I32::Splat(x.sum16_by_32[sub]); }
  static FAK_VEC void Prepare(const uint16_t*, const std::byte* words, int32_t* scale, int32_t*) {
    for (int i = 0; i < 4; ++i) {
      SpreadSignedBytes(ScaleWord(words, i), scale + 64 * i);
    }
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int first, Bytes (&w)[8]) {
    FAK_UNROLL
    for (int v = 0; v < 8; ++v) {
      const Bytes low = Shift<-4 * (kStep / 2)>(Word(words, 4 + 4 * first + 8 * (kStep % 2) + v));
      const Bytes high = Shift<4 - 2 * kStep>(Word(words, 36 + 2 * first + v));
      w[v] = OrAnd(And(low, Bytes::Splat(15)), high, Bytes::Splat(48));
    }
  }
};

struct FormatIq4Xs : Format256<DType::kIq4Xs, SignedBytes, 128, 32, 1, 8, false> {
  static FAK_VEC I32 Start(const Record256& x, int j) {
    return SignedBytes::kOffset == 0 ? I32::Zero() : I32::Splat(x.sum32_by_128[j]);
  }
  template <int kJ>
  static FAK_VEC void StoreScale(I32 low, I32 high, int32_t* scale) {
    const I32 four = And(ShiftRight<4 * kJ>(low), I32::Splat(15));
    const I32 two = And(ShiftRight<2 * kJ>(high), I32::Splat(3));
    Sub(Or(four, ShiftLeft<4>(two)), I32::Splat(32)).Store(scale + 16 * kJ);
  }
  static FAK_VEC void Prepare(const uint16_t* halves, const std::byte* words, int32_t* scale,
                              int32_t*) {
    const I32 low = ScaleWord(words, 0);
    const I32 high = ShiftRight<16>(Bits(F32::LoadBf16(halves + 16)));
    StoreScale<0>(low, high, scale);
    StoreScale<1>(low, high, scale);
    StoreScale<2>(low, high, scale);
    StoreScale<3>(low, high, scale);
    StoreScale<4>(low, high, scale);
    StoreScale<5>(low, high, scale);
    StoreScale<6>(low, high, scale);
    StoreScale<7>(low, high, scale);
  }
  template <int kStep>
  static FAK_VEC void Unpack(const std::byte* words, int, SignedBytes (&w)[8]) {
    UnpackIq4(words + 64 * (1 + 4 * kStep), w);
  }
};

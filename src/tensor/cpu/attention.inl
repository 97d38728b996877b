// Rule 10. Included inside an ISA's namespace.
//
// Scores: a lane is a position, so a query's 16 scores of a tile are one vector, and its chain over
// the head dim is one fma a dim with q broadcast. Weighted V: a lane is a dim, the chain is over
// positions. Both are register blocks of several queries by several vectors, which bounds loads
// and conversions of K and V to one a few fmas.

// Vectors of K or V that a block of n queries holds at a time: what the registers allow.
constexpr int BlockVectors(int n_queries) {
  if (kLanes == 16) {
    return n_queries == 1 ? 8 : 4;
  }
  return n_queries == 1 ? 4 : n_queries == 2 ? 2 : 1;
}
inline constexpr int kBlockQueries = 6;

template <KvType kType>
struct KvElement {
  using Type = uint16_t;
  static FAK_VEC F32x16 Load(const Type* p) {
    return kType == KvType::kF16 ? F32x16::LoadF16(p) : F32x16::LoadBf16(p);
  }
};
template <>
struct KvElement<KvType::kF32> {
  using Type = float;
  static FAK_VEC F32x16 Load(const Type* p) { return F32x16::Load(p); }
};

// Scores of kQueries queries against kTiles tiles from `tile` on.
template <KvType kType, int kQueries, int kTiles>
FAK_VEC void ScoreBlock(const AttentionSplit& split, uint32_t query, uint32_t tile) {
  using Kv = KvElement<kType>;
  const typename Kv::Type* keys[kTiles];
  const float* q[kQueries];
  for (int t = 0; t < kTiles; ++t) {
    keys[t] = reinterpret_cast<const typename Kv::Type*>(split.keys[tile + t]);
  }
  for (int i = 0; i < kQueries; ++i) {
    q[i] = split.queries[query + i].q;
  }
  F32x16 dot[kQueries][kTiles];
  FAK_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    FAK_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      dot[i][t] = F32x16::Zero();
    }
  }
  for (uint32_t e = 0; e < split.head_dim; ++e) {
    F32x16 k[kTiles];
    FAK_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      k[t] = Kv::Load(keys[t] + 16 * e);
    }
    FAK_UNROLL
    for (int i = 0; i < kQueries; ++i) {
      const F32x16 x = Splat16(q[i][e]);
      FAK_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        dot[i][t] = Fma(x, k[t], dot[i][t]);
      }
    }
  }
  FAK_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    FAK_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      float* const to = split.scores + (query + i) * kSplitPositions + 16 * (tile + t);
      Mul(dot[i][t], Splat16(split.scale)).Store(to);
    }
  }
}

template <KvType kType, int kQueries>
FAK_VEC void Score(const AttentionSplit& split, uint32_t query, uint32_t begin, uint32_t end) {
  constexpr int kTiles = BlockVectors(kQueries);
  uint32_t tile = begin / 16;
  const uint32_t last = (end + 15) / 16;
  for (; tile + kTiles <= last; tile += kTiles) {
    ScoreBlock<kType, kQueries, kTiles>(split, query, tile);
  }
  for (; tile < last; ++tile) {
    ScoreBlock<kType, kQueries, 1>(split, query, tile);
  }
}

// Scores of a tile with those of invisible positions replaced.
FAK_VEC F32x16 Visible(const float* scores, uint32_t first, const AttentionQuery& query,
                       float otherwise) {
  if (first >= query.begin && first + 16 <= query.end) {
    return F32x16::Load(scores + first);
  }
  alignas(64) float lanes[16];
  for (uint32_t i = 0; i < 16; ++i) {
    const bool visible = first + i >= query.begin && first + i < query.end;
    lanes[i] = visible ? scores[first + i] : otherwise;
  }
  return F32x16::Load(lanes);
}

// Scores become weights; invisible positions weigh 0, which leaves the lanes of the sum as they
// are.
inline void Soften(const AttentionQuery& query, float* scores) {
  const uint32_t first = query.begin / 16 * 16;
  const float lowest = -__builtin_inff();
  F32x16 largest = Splat16(lowest);
  for (uint32_t t = first; t < query.end; t += 16) {
    largest = Max(Visible(scores, t, query, lowest), largest);
  }
  const float max = LargestLane(largest) + 0.0f;
  F32x16 lanes = F32x16::Zero();
  for (uint32_t t = first; t < query.end; t += 16) {
    Exp2(Sub(F32x16::Load(scores + t), Splat16(max))).Store(scores + t);
    const F32x16 weights = Visible(scores, t, query, 0.0f);
    lanes = Add(lanes, weights);
  }
  *query.maximum = max;
  *query.sum = Tree16(lanes);
}

// Adds positions [begin, end) to kVectors vectors of o, from vector `vector` on.
template <KvType kType, int kQueries, int kVectors>
FAK_VEC void WeighBlock(const AttentionSplit& split, uint32_t query, uint32_t vector,
                        uint32_t begin, uint32_t end) {
  using Kv = KvElement<kType>;
  F32x16 o[kQueries][kVectors];
  FAK_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    FAK_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      o[i][v] = F32x16::Load(split.queries[query + i].o + 16 * (vector + v));
    }
  }
  const float* const weights = split.scores + query * kSplitPositions;
  for (uint32_t t = begin; t < end;) {
    const auto* row = reinterpret_cast<const typename Kv::Type*>(split.values[t / 16]) +
                      t % 16 * split.value_stride + 16 * vector;
    const uint32_t tile_end = t / 16 * 16 + 16 < end ? t / 16 * 16 + 16 : end;
    for (; t < tile_end; ++t, row += split.value_stride) {
      F32x16 x[kVectors];
      FAK_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        x[v] = Kv::Load(row + 16 * v);
      }
      FAK_UNROLL
      for (int i = 0; i < kQueries; ++i) {
        const F32x16 p = Splat16(weights[i * kSplitPositions + t]);
        FAK_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          o[i][v] = Fma(p, x[v], o[i][v]);
        }
      }
    }
  }
  FAK_UNROLL
  for (int i = 0; i < kQueries; ++i) {
    FAK_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      o[i][v].Store(split.queries[query + i].o + 16 * (vector + v));
    }
  }
}

template <KvType kType, int kQueries>
FAK_VEC void Weigh(const AttentionSplit& split, uint32_t query, uint32_t begin, uint32_t end) {
  constexpr int kVectors = BlockVectors(kQueries);
  const uint32_t last = split.value_stride / 16;
  uint32_t vector = 0;
  for (; vector + kVectors <= last; vector += kVectors) {
    WeighBlock<kType, kQueries, kVectors>(split, query, vector, begin, end);
  }
  for (; vector < last; ++vector) {
    WeighBlock<kType, kQueries, 1>(split, query, vector, begin, end);
  }
}

// A block of queries. Each sees its own range; what all see is done together, the rest one by one,
// in the order of positions.
template <KvType kType, int kQueries>
inline void AttendBlock(const AttentionSplit& split, uint32_t query) {
  const AttentionQuery* const queries = split.queries + query;
  uint32_t begin = queries[0].begin;
  uint32_t end = queries[0].end;
  uint32_t common_begin = begin;
  uint32_t common_end = end;
  for (int i = 1; i < kQueries; ++i) {
    begin = queries[i].begin < begin ? queries[i].begin : begin;
    end = queries[i].end > end ? queries[i].end : end;
    common_begin = queries[i].begin > common_begin ? queries[i].begin : common_begin;
    common_end = queries[i].end < common_end ? queries[i].end : common_end;
  }
  Score<kType, kQueries>(split, query, begin, end);
  for (int i = 0; i < kQueries; ++i) {
    Soften(queries[i], split.scores + (query + i) * kSplitPositions);
    for (uint32_t e = 0; e < split.value_stride; e += 16) {
      F32x16::Zero().Store(queries[i].o + e);
    }
  }
  if (common_begin >= common_end) {
    for (int i = 0; i < kQueries; ++i) {
      Weigh<kType, 1>(split, query + i, queries[i].begin, queries[i].end);
    }
    return;
  }
  for (int i = 0; i < kQueries; ++i) {
    Weigh<kType, 1>(split, query + i, queries[i].begin, common_begin);
  }
  Weigh<kType, kQueries>(split, query, common_begin, common_end);
  for (int i = 0; i < kQueries; ++i) {
    Weigh<kType, 1>(split, query + i, common_end, queries[i].end);
  }
}

template <KvType kType>
inline void AttendAs(const AttentionSplit& split) {
  uint32_t query = 0;
  for (; query + kBlockQueries <= split.n_queries; query += kBlockQueries) {
    AttendBlock<kType, kBlockQueries>(split, query);
  }
  switch (split.n_queries - query) {
    case 1: return AttendBlock<kType, 1>(split, query);
    case 2: return AttendBlock<kType, 2>(split, query);
    case 3: return AttendBlock<kType, 3>(split, query);
    case 4: return AttendBlock<kType, 4>(split, query);
    case 5: return AttendBlock<kType, 5>(split, query);
    default: return;
  }
}

inline void Attend(KvType type, const AttentionSplit& split) {
  switch (type) {
    case KvType::kF32: return AttendAs<KvType::kF32>(split);
    case KvType::kF16: return AttendAs<KvType::kF16>(split);
    case KvType::kBf16: return AttendAs<KvType::kBf16>(split);
  }
}

inline void Combine(const float* maxima, const float* sums, const float* o, uint32_t n,
                    uint32_t stride, uint32_t dim, float* out) {
  float max = maxima[0];
  for (uint32_t i = 1; i < n; ++i) {
    max = maxima[i] > max ? maxima[i] : max;
  }
  max = max + 0.0f;
  for (uint32_t e = 0; e < dim; e += 16) {
    F32x16 sum = F32x16::Zero();
    F32x16 y = F32x16::Zero();
    for (uint32_t i = 0; i < n; ++i) {
      const F32x16 weight = Exp2(Splat16(maxima[i] - max));
      sum = Fma(weight, Splat16(sums[i]), sum);
      y = Fma(weight, F32x16::Load(o + i * static_cast<uint64_t>(stride) + e), y);
    }
    y = Div(y, sum);
    if (dim - e >= 16) {
      y.Store(out + e);
    } else {
      StorePartial(y, out + e, static_cast<int>(dim - e));
    }
  }
}

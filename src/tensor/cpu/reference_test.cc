#include "tensor/cpu/reference_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "tensor/spec/all.h"

namespace fak::tensor::cpu {
namespace {

// A stream of uniform bits; the same everywhere.
class Bits {
 public:
  explicit Bits(uint64_t seed) : seed_(seed) {}
  uint64_t Next() { return spec::SampleBits(seed_, 0, at_++); }
  // In [-1, 1).
  float Uniform() { return static_cast<float>(static_cast<int64_t>(Next()) >> 40) * 0x1p-23f; }

 private:
  uint64_t seed_;
  uint64_t at_ = 0;
};

constexpr size_t kNone = SIZE_MAX;

// Where in a block of the type the f16 scale and minimum lie, and what w·scale is at most.
struct BlockScales {
  size_t d = 0;
  size_t minimum = kNone;
  float largest = 1.0f;
};

BlockScales ScalesOf(DType type) {
  switch (type) {
    case DType::kQ4_0: return {0, kNone, 8};
    case DType::kQ4_1: return {0, 2, 15};
    case DType::kQ5_0: return {0, kNone, 16};
    case DType::kQ5_1: return {0, 2, 31};
    case DType::kQ8_0: return {0, kNone, 128};
    case DType::kQ2K: return {80, 82, 45};
    case DType::kQ3K: return {108, kNone, 128};
    case DType::kQ4K: return {0, 2, 945};
    case DType::kQ5K: return {0, 2, 1953};
    case DType::kQ6K: return {208, kNone, 4096};
    case DType::kIq4Nl: return {0, kNone, 127};
    case DType::kIq4Xs: return {0, kNone, 4064};
    default: return {};
  }
}

void FillBlock(DType type, float scale, Bits& bits, std::byte* block) {
  const size_t bytes = InfoOf(type).block_bytes;
  if (!IsQuantised(type)) {
    const float x = scale * bits.Uniform();
    const uint16_t half = type == DType::kF16 ? spec::F32ToF16(x) : spec::F32ToBf16(x);
    std::memcpy(block, type == DType::kF32 ? static_cast<const void*>(&x) : &half, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; ++i) {
    block[i] = static_cast<std::byte>(bits.Next() & 0xff);
  }
  const BlockScales scales = ScalesOf(type);
  const uint16_t d = spec::F32ToF16((1.0f + 0.5f * bits.Uniform()) * scale / scales.largest);
  std::memcpy(block + scales.d, &d, sizeof d);
  if (scales.minimum != kNone) {
    // K-quants take the minimum off, the others add it.
    const bool taken_off = InfoOf(type).block_elements == 256;
    const float half_range = type == DType::kQ2K ? scale / 15 : scale / 63;
    const uint16_t m = spec::F32ToF16(taken_off ? half_range : -0.5f * scale);
    std::memcpy(block + scales.minimum, &m, sizeof m);
  }
}

size_t Index(uint64_t a, uint64_t stride, uint64_t b) {
  return static_cast<size_t>(a * stride + b);
}

// One output: weight row · x, by rules 4 to 7.
float Dot(const MemoryWeight& weight, uint32_t row, const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  if (!IsQuantised(weight.dtype())) {
    return spec::DotRowFloat(weight.dtype(), weight.Row(row), n, x.data());
  }
  const int block = spec::ActivationBlock(weight.dtype());
  std::vector<int8_t> q(x.size());
  std::vector<float> scales(x.size() / static_cast<size_t>(block) + 1);
  spec::QuantiseRow(x.data(), n, block, q.data(), scales.data());
  return spec::DotRow(weight.dtype(), weight.Row(row), n, {q.data(), scales.data()});
}

std::vector<float> Project(const MemoryWeight& weight, const std::vector<float>& x,
                           const MemoryWeight* bias = nullptr, uint32_t first = 0,
                           uint32_t rows = 0) {
  std::vector<float> y;
  for (uint32_t row = first; row < first + (rows == 0 ? weight.rows() : rows); ++row) {
    y.push_back(Dot(weight, row, x));
    if (bias != nullptr && bias->rows() > 0) {
      y.back() = spec::AddBias(y.back(), bias->Element(0, row));
    }
  }
  return y;
}

void ApplyNorm(const MemoryWeight& weight, float* x, size_t n) {
  std::vector<float> w(n);
  for (size_t i = 0; i < n; ++i) {
    w[i] = weight.Element(0, static_cast<uint32_t>(i));
  }
  spec::RmsNorm(x, w.data(), static_cast<int64_t>(n), 1e-5f, x);
}

std::vector<float> Normed(const MemoryWeight& weight, std::vector<float> x) {
  ApplyNorm(weight, x.data(), x.size());
  return x;
}

float Gate(Activation activation, float gate, float up) {
  return activation == Activation::kSilu ? spec::SiluGate(gate, up) : spec::GeluGate(gate, up);
}

// Returns how many values were clamped: 0 or 1.
uint64_t Append(KvType type, float x, std::vector<std::byte>& out) {
  const spec::StoredKv half = type == KvType::kF16 ? spec::StoreKvF16(x) : spec::StoreKvBf16(x);
  const bool whole = type == KvType::kF32;
  const size_t at = out.size();
  out.resize(at + KvTypeBytes(type));
  std::memcpy(out.data() + at, whole ? static_cast<const void*>(&x) : &half.bits,
              KvTypeBytes(type));
  return !whole && half.clamped ? 1 : 0;
}

float Stored(KvType type, const std::vector<std::byte>& kv, size_t index) {
  float x;
  uint16_t half;
  if (type == KvType::kF32) {
    std::memcpy(&x, kv.data() + index * 4, sizeof x);
    return x;
  }
  std::memcpy(&half, kv.data() + index * 2, sizeof half);
  return type == KvType::kF16 ? spec::F16ToF32(half) : spec::Bf16ToF32(half);
}

}  // namespace

MemoryWeight::MemoryWeight(std::string name, DType type, uint32_t rows, uint32_t cols, float scale,
                           uint64_t seed)
    : name_(std::move(name)), type_(type), rows_(rows), cols_(cols) {
  const DTypeInfo& info = InfoOf(type);
  CHECK(cols % info.block_elements == 0) << name_;
  const size_t blocks = size_t{rows} * cols / info.block_elements;
  bytes_.resize(blocks * info.block_bytes);
  Bits bits(seed ^ (std::hash<std::string>()(name_) << 8));
  for (size_t block = 0; block < blocks; ++block) {
    FillBlock(type, scale, bits, bytes_.data() + block * info.block_bytes);
  }
}

Status MemoryWeight::ReadRows(uint32_t first, uint32_t count, std::span<std::byte> out) const {
  CHECK(out.size() == static_cast<size_t>(RowBytes(type_, cols_)) * count);
  std::memcpy(out.data(), Row(first), out.size());
  return {};
}

const std::byte* MemoryWeight::Row(uint32_t row) const {
  return bytes_.data() + static_cast<size_t>(RowBytes(type_, cols_)) * row;
}

float MemoryWeight::Element(uint32_t row, uint32_t col) const {
  return spec::DequantisedElement(type_, Row(row), col);
}

std::vector<TestShape> TestShapes() {
  return {
      {.name = "plain"},
      {.name = "quantised32",
       .width = 96,
       .heads = {3, 1, 32},
       .ff = 160,
       .unused_rows = 39,
       .type = DType::kQ4_1,
       .other_type = DType::kQ8_0,
       .tied = true},
      {.name = "quantised256",
       .width = 256,
       .heads = {4, 4, 64},
       .ff = 512,
       .type = DType::kQ4K,
       .other_type = DType::kQ6K,
       .bias = true,
       .rope_style = RopeStyle::kHalf},
      {.name = "mixed_classes",
       .width = 256,
       .heads = {2, 1, 128},
       .ff = 256,
       .type = DType::kQ5_0,
       .other_type = DType::kQ5K,
       .head_norms = true,
       .kv_type = KvType::kBf16},
      {.name = "gemma",
       .width = 80,
       .heads = {4, 1, 80},
       .ff = 112,
       .type = DType::kF16,
       .other_type = DType::kBf16,
       .head_norms = true,
       .post_norms = true,
       .tied = true,
       .embed_scale = 8.944272f,
       .window = 37,
       .rope_style = RopeStyle::kHalf,
       .activation = Activation::kGeluTanh,
       .kv_type = KvType::kF32},
      {.name = "experts",
       .width = 64,
       .heads = {4, 2, 24},
       .ff = 40,
       .head_norms = true,
       .rope_dims = 16,
       .experts = 6},
      {.name = "quantised_experts",
       .width = 64,
       .heads = {6, 2, 16},
       .ff = 96,
       .type = DType::kQ8_0,
       .other_type = DType::kQ4_0,
       .experts = 5,
       .top_k = 3},
  };
}

TestModel::TestModel(const TestShape& shape) : shape_(shape) {
  const auto vector = [&](const std::string& name, uint32_t n, float scale) {
    return MemoryWeight(name, DType::kF32, 1, n, scale, shape.seed);
  };
  const auto matrix = [&](const std::string& name, DType type, uint32_t rows, uint32_t cols) {
    return MemoryWeight(name, type, rows, cols, 2.0f / std::sqrt(static_cast<float>(cols)),
                        shape.seed);
  };
  const HeadShape& h = shape.heads;
  const uint32_t n_experts = std::max(shape.experts, 1u);
  const uint32_t table_rows = shape.vocabulary + shape.unused_rows;
  embedding_ = MemoryWeight("embedding", shape.type, table_rows, shape.width, 1.0f, shape.seed);
  final_norm_ = vector("final_norm", shape.width, 1.5f);
  if (!shape.tied) {
    head_ = matrix("head", shape.other_type, table_rows, shape.width);
  }
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const std::string at = std::to_string(i) + ".";
    Layer layer;
    layer.norm = vector(at + "norm", shape.width, 1.5f);
    layer.q = matrix(at + "q", shape.type, h.q_heads * h.dim, shape.width);
    layer.k = matrix(at + "k", shape.type, h.kv_heads * h.dim, shape.width);
    layer.v = matrix(at + "v", shape.other_type, h.kv_heads * h.dim, shape.width);
    if (shape.bias) {
      layer.q_bias = vector(at + "q_bias", h.q_heads * h.dim, shape.bias_scale);
      layer.k_bias = vector(at + "k_bias", h.kv_heads * h.dim, shape.bias_scale);
      layer.v_bias = vector(at + "v_bias", h.kv_heads * h.dim, shape.bias_scale);
    }
    if (shape.head_norms) {
      layer.q_norm = vector(at + "q_norm", h.dim, 1.5f);
      layer.k_norm = vector(at + "k_norm", h.dim, 1.5f);
    }
    // An embedding of 256-wide blocks needs rows of whole blocks; so does O's input.
    const bool whole = h.q_heads * h.dim % InfoOf(shape.type).block_elements == 0;
    layer.o = matrix(at + "o", whole ? shape.type : DType::kF32, shape.width, h.q_heads * h.dim);
    layer.ff_norm = vector(at + "ff_norm", shape.width, 1.5f);
    layer.gate = matrix(at + "gate", shape.type, n_experts * shape.ff, shape.width);
    layer.up = matrix(at + "up", shape.other_type, n_experts * shape.ff, shape.width);
    const bool whole_ff = shape.ff % InfoOf(shape.other_type).block_elements == 0;
    layer.down = matrix(at + "down", whole_ff ? shape.other_type : DType::kF32,
                        n_experts * shape.width, shape.ff);
    if (shape.experts > 0) {
      layer.router = matrix(at + "router", DType::kF32, shape.experts, shape.width);
    }
    if (shape.post_norms) {
      layer.post_norm = vector(at + "post_norm", shape.width, 1.5f);
      layer.ff_post_norm = vector(at + "ff_post_norm", shape.width, 1.5f);
    }
    layers_.push_back(std::move(layer));
  }
}

RopeSpec TestModel::Rope() const {
  RopeSpec rope{.style = shape_.rope_style, .dims = RopeDims(), .inverse_freq = {}, .magnitude = 1};
  const spec::RopeScaling scaling{.dims = static_cast<int>(RopeDims())};
  for (uint32_t i = 0; i < RopeDims() / 2; ++i) {
    rope.inverse_freq.push_back(spec::RopeFrequency(scaling, static_cast<int>(i), 1.0));
  }
  return rope;
}

KvSpec TestModel::Kv(uint32_t block_size, uint32_t blocks) const {
  KvSpec spec;
  spec.layers.assign(shape_.layers, {shape_.heads.kv_heads, shape_.heads.dim});
  spec.type = shape_.kv_type;
  spec.block_size = block_size;
  spec.blocks = blocks;
  return spec;
}

Program TestModel::Load(Backend& backend) const {
  const auto matrix = [&](std::vector<MatrixPart> parts) {
    Result<MatrixId> id = backend.AddMatrix(parts);
    CHECK(id.has_value()) << id.error().detail;
    return *id;
  };
  const auto norm = [&](const MemoryWeight& weight) -> Norm {
    if (weight.rows() == 0) {
      return {};
    }
    Result<VectorId> id = backend.AddVector(weight);
    CHECK(id.has_value()) << id.error().detail;
    return {*id, 1e-5f};
  };
  const auto maybe = [](const MemoryWeight& w) { return w.rows() == 0 ? nullptr : &w; };
  const HeadShape& heads = shape_.heads;
  const float scale = spec::InverseSqrt(heads.dim);
  ProgramBuilder program;
  const MatrixId table = matrix({{&embedding_}});
  const RopeId rope = backend.AddRope(Rope());
  const Rows x = program.Embed(table, shape_.width, shape_.embed_scale);
  for (uint32_t i = 0; i < shape_.layers; ++i) {
    const Layer& l = layers_[i];
    const MatrixId qkv =
        matrix({{&l.q, maybe(l.q_bias)}, {&l.k, maybe(l.k_bias)}, {&l.v, maybe(l.v_bias)}});
    const Rows r = program.NormQkv(x, norm(l.norm), qkv, heads);
    program.RopeAppend(r, heads, rope, i, norm(l.q_norm), norm(l.k_norm));
    const Rows a = program.Attention(r, heads, i, scale, i % 2 == 1 ? shape_.window : 0);
    program.ProjectResidual(x, a, matrix({{&l.o}}), norm(l.post_norm));
    if (shape_.experts > 0) {
      Result<ExpertsId> experts = backend.AddExperts(
          {.gate = &l.gate, .up = &l.up, .down = &l.down, .experts = shape_.experts});
      CHECK(experts.has_value()) << experts.error().detail;
      program.Moe({.x = x,
                   .norm = norm(l.ff_norm),
                   .router = matrix({{&l.router}}),
                   .experts = *experts,
                   .n_experts = shape_.experts,
                   .ff = shape_.ff,
                   .top_k = shape_.top_k,
                   .activation = shape_.activation});
      continue;
    }
    const Rows h = program.NormGateUp(x, norm(l.ff_norm), matrix({{&l.gate}, {&l.up}}), shape_.ff,
                                      shape_.activation);
    program.ProjectResidual(x, h, matrix({{&l.down}}), norm(l.ff_post_norm));
  }
  program.Head(x, norm(final_norm_), shape_.tied ? table : matrix({{&head_}}), shape_.vocabulary);
  return std::move(program).Finish();
}

// The state of a sequence, token by token.
class TestModel::Sequence {
 public:
  explicit Sequence(const TestModel& model) : model_(model), shape_(model.shape_) {
    expected_.keys.resize(shape_.layers);
    expected_.values.resize(shape_.layers);
  }

  void Add(int32_t token) {
    std::vector<float> x(shape_.width);
    for (uint32_t i = 0; i < shape_.width; ++i) {
      x[i] = model_.embedding_.Element(static_cast<uint32_t>(token), i);
      if (shape_.embed_scale != 1.0f) {
        x[i] = x[i] * shape_.embed_scale;
      }
    }
    for (uint32_t i = 0; i < shape_.layers; ++i) {
      AddResidual(x, model_.layers_[i].post_norm, AttentionLayer(i, x));
      if (shape_.experts > 0) {
        AddResidual(x, {}, ExpertLayer(model_.layers_[i], x));
      } else {
        AddResidual(x, model_.layers_[i].ff_post_norm, FeedForward(model_.layers_[i], x, 0, true));
      }
    }
    const MemoryWeight& head = shape_.tied ? model_.embedding_ : model_.head_;
    expected_.logits.push_back(
        Project(head, Normed(model_.final_norm_, x), nullptr, 0, shape_.vocabulary));
    ++position_;
  }

  Expected Take() { return std::move(expected_); }

 private:
  static void AddResidual(std::vector<float>& x, const MemoryWeight& norm, std::vector<float> y) {
    if (norm.rows() > 0) {
      ApplyNorm(norm, y.data(), y.size());
    }
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = spec::AddResidual(x[i], y[i]);
    }
  }

  void RotateHead(const MemoryWeight& norm, float* head) const {
    if (norm.rows() > 0) {
      ApplyNorm(norm, head, shape_.heads.dim);
    }
    const RopeSpec rope = model_.Rope();
    std::vector<spec::RopeEntry> table;
    for (const double frequency : rope.inverse_freq) {
      table.push_back(spec::RopeTableEntry(position_, frequency, 1.0));
    }
    spec::Rotate(head, static_cast<int>(rope.dims), rope.style == RopeStyle::kAdjacent,
                 table.data());
  }

  std::vector<float> AttentionLayer(uint32_t i, const std::vector<float>& x) {
    const Layer& l = model_.layers_[i];
    const HeadShape& h = shape_.heads;
    const std::vector<float> normed = Normed(l.norm, x);
    std::vector<float> q = Project(l.q, normed, &l.q_bias);
    std::vector<float> k = Project(l.k, normed, &l.k_bias);
    const std::vector<float> v = Project(l.v, normed, &l.v_bias);
    for (uint32_t head = 0; head < h.q_heads; ++head) {
      RotateHead(l.q_norm, q.data() + size_t{head} * h.dim);
    }
    for (uint32_t head = 0; head < h.kv_heads; ++head) {
      RotateHead(l.k_norm, k.data() + size_t{head} * h.dim);
    }
    for (size_t e = 0; e < k.size(); ++e) {
      expected_.clamped += Append(shape_.kv_type, k[e], expected_.keys[i]);
      expected_.clamped += Append(shape_.kv_type, v[e], expected_.values[i]);
    }
    std::vector<float> out(q.size());
    const uint32_t window = i % 2 == 1 ? shape_.window : 0;
    for (uint32_t head = 0; head < h.q_heads; ++head) {
      const uint32_t kv_head = head / (h.q_heads / h.kv_heads);
      const auto element = [&](const std::vector<std::byte>& kv) {
        return [&kv, kv_head, &h, this](int64_t t, int e) {
          return Stored(shape_.kv_type, kv,
                        Index(static_cast<uint64_t>(t), h.kv_heads * h.dim,
                              kv_head * h.dim + static_cast<uint32_t>(e)));
        };
      };
      spec::Attend(q.data() + size_t{head} * h.dim, static_cast<int>(h.dim),
                   spec::FirstVisible(position_, window), position_ + 1,
                   spec::PlainScore(spec::InverseSqrt(h.dim)), element(expected_.keys[i]),
                   element(expected_.values[i]), out.data() + size_t{head} * h.dim);
    }
    return Project(l.o, out);
  }

  std::vector<float> FeedForward(const Layer& l, const std::vector<float>& x, uint32_t expert,
                                 bool norm) const {
    const std::vector<float> normed = norm ? Normed(l.ff_norm, x) : x;
    const uint32_t first = expert * shape_.ff;
    std::vector<float> h = Project(l.gate, normed, nullptr, first, shape_.ff);
    const std::vector<float> up = Project(l.up, normed, nullptr, first, shape_.ff);
    for (size_t i = 0; i < h.size(); ++i) {
      h[i] = Gate(shape_.activation, h[i], up[i]);
    }
    return Project(l.down, h, nullptr, expert * shape_.width, shape_.width);
  }

  std::vector<float> ExpertLayer(const Layer& l, const std::vector<float>& x) const {
    const std::vector<float> normed = Normed(l.ff_norm, x);
    const std::vector<float> logits = Project(l.router, normed);
    std::vector<int32_t> ids(shape_.top_k);
    std::vector<float> weights(shape_.top_k);
    spec::Route(logits.data(), shape_.experts, shape_.top_k, true, 1.0f, ids.data(),
                weights.data());
    std::vector<float> sum(shape_.width, 0.0f);
    for (uint32_t rank = 0; rank < shape_.top_k; ++rank) {
      const std::vector<float> y = FeedForward(l, normed, static_cast<uint32_t>(ids[rank]), false);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] = spec::AddExpert(sum[i], weights[rank], y[i]);
      }
    }
    return sum;
  }

  const TestModel& model_;
  const TestShape& shape_;
  int64_t position_ = 0;
  Expected expected_;
};

const TestModel::Expected& TestModel::Run(const std::vector<int32_t>& tokens) const {
  const auto [run, is_new] = runs_.try_emplace(tokens);
  if (is_new) {
    Sequence sequence(*this);
    for (const int32_t token : tokens) {
      sequence.Add(token);
    }
    run->second = sequence.Take();
  }
  return run->second;
}

}  // namespace fak::tensor::cpu

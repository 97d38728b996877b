#include "tests/tiny/synthetic_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "tensor/quantise.h"
#include "tensor/spec/functions64.h"
#include "tensor/spec/random.h"

namespace fak::tiny {
namespace {

using tensor::DType;

constexpr std::array<std::string_view, 5> kFamilies = {"llama", "qwen2", "qwen3", "qwen3moe",
                                                       "gemma3"};
constexpr std::array<std::string_view, 4> kRopeScalings = {"none", "linear", "yarn", "llama3"};

// Of the scaled variants: the positions are stretched by kRopeFactor from a context of
// kRopeContext.
constexpr float kRopeFactor = 4.0f;
constexpr uint32_t kRopeContext = 512;

// ---- types

// general.file_type of a model stored mostly in a type.
uint32_t FileType(const TypeMix& mix) {
  switch (mix.base) {
    case DType::kF32: return 0;
    case DType::kF16: return 1;
    case DType::kQ4_0: return 2;
    case DType::kQ4_1: return 3;
    case DType::kQ8_0: return 7;
    case DType::kQ5_0: return 8;
    case DType::kQ5_1: return 9;
    case DType::kQ2K: return 10;
    case DType::kQ3K: return 12;
    case DType::kQ4K: return mix.more_bits ? 15 : 14;
    case DType::kQ5K: return mix.more_bits ? 17 : 16;
    case DType::kQ6K: return 18;
    case DType::kIq4Nl: return 25;
    case DType::kIq4Xs: return 30;
    case DType::kBf16: return 32;
  }
  return 0;
}

// What rows are stored in that are not whole blocks of 256.
DType TypeForRow(DType type, int64_t row) {
  if (row % tensor::InfoOf(type).block_elements == 0) {
    return type;
  }
  switch (type) {
    case DType::kQ2K:
    case DType::kQ3K:
    case DType::kIq4Xs: return DType::kIq4Nl;
    case DType::kQ4K: return DType::kQ5_0;
    case DType::kQ5K: return DType::kQ5_1;
    case DType::kQ6K: return DType::kQ8_0;
    default: return DType::kF16;
  }
}

// Layers whose attn_v and ffn_down get more bits: the first and last eighth, and each third
// between.
bool HasMoreBits(uint32_t layer, uint32_t layers) {
  const uint32_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// ---- weights

// FNV-1a.
uint32_t HashOf(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  }
  return hash;
}

// Element `index` of a tensor: near normal, mean 0 and variance 1, from four uniform values of 16
// bits.
float Normal(uint64_t seed, uint32_t tensor, uint64_t index) {
  uint64_t bits = tensor::spec::SampleBits(seed, tensor, index);
  int32_t sum = -2 * 65535;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<int32_t>(bits & 0xFFFF);
    bits >>= 16;
  }
  return static_cast<float>(sum) * (1.7320508f / 65536.0f);
}

// A tensor's rows, mean + deviation·normal, stored as `type`.
class RandomRows {
 public:
  RandomRows(const WeightOptions& options, std::string_view name, DType type, int64_t row,
             int64_t rows, float mean, float deviation)
      : seed_(options.seed),
        tensor_(HashOf(name)),
        type_(type),
        row_(row),
        period_(options.distinct_rows > 0 ? std::min(options.distinct_rows, rows) : rows),
        mean_(mean),
        deviation_(deviation) {}

  void Fill(int64_t first, std::span<std::byte> out) {
    const auto row_bytes = static_cast<size_t>(tensor::RowBytes(type_, row_));
    if (period_bytes_.empty() && first + static_cast<int64_t>(out.size() / row_bytes) > period_) {
      period_bytes_.resize(static_cast<size_t>(period_) * row_bytes);
      for (int64_t i = 0; i < period_; ++i) {
        FillRow(i, std::span(period_bytes_).subspan(static_cast<size_t>(i) * row_bytes, row_bytes));
      }
    }
    for (; !out.empty(); out = out.subspan(row_bytes), ++first) {
      if (period_bytes_.empty()) {
        FillRow(first, out.first(row_bytes));
      } else {
        const size_t at = static_cast<size_t>(first % period_) * row_bytes;
        std::copy_n(period_bytes_.begin() + static_cast<std::ptrdiff_t>(at), row_bytes,
                    out.begin());
      }
    }
  }

 private:
  void FillRow(int64_t index, std::span<std::byte> out) const {
    std::vector<float> row(static_cast<size_t>(row_));
    const auto start = static_cast<uint64_t>(index * row_);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = mean_ + deviation_ * Normal(seed_, tensor_, start + i);
    }
    tensor::QuantiseRow(type_, row, out);
  }

  uint64_t seed_;
  uint32_t tensor_;
  DType type_;
  int64_t row_;
  int64_t period_;
  float mean_;
  float deviation_;
  std::vector<std::byte> period_bytes_;  // the first period_ rows, once they repeat
};

// ---- the parts of a model

class ModelMaker {
 public:
  ModelMaker(const ModelShape& shape, const TypeMix& mix, const WeightOptions& weights,
             tensor::GgufWriter& writer)
      : shape_(shape), mix_(mix), weights_(weights), writer_(writer) {}

  void AddKeys() {
    writer_.Set(tensor::kGgufArchitectureKey, FamilyName(shape_.family));
    writer_.Set("general.type", "model");
    writer_.Set("general.name", fmt::format("Synthetic {}", FamilyName(shape_.family)));
    writer_.Set("general.file_type", FileType(mix_));
    writer_.Set("general.quantization_version", uint32_t{2});
    Key("block_count", shape_.layers);
    Key("context_length", shape_.context);
    Key("embedding_length", shape_.width);
    Key("feed_forward_length", shape_.ff);
    Key("attention.head_count", shape_.heads);
    Key("attention.head_count_kv", shape_.kv_heads);
    Key("attention.layer_norm_rms_epsilon", shape_.family == Family::kLlama ? 1e-5f : 1e-6f);
    Key("rope.freq_base", shape_.rope_base);
    if (shape_.family == Family::kLlama) {
      Key("vocab_size", shape_.vocabulary);
      Key("rope.dimension_count", shape_.head_dim);
    }
    if (shape_.family != Family::kQwen2) {
      Key("attention.key_length", shape_.head_dim);
      Key("attention.value_length", shape_.head_dim);
    }
    if (shape_.window > 0) {
      Key("attention.sliding_window", shape_.window);
    }
    if (shape_.experts > 0) {
      Key("expert_count", shape_.experts);
      Key("expert_used_count", shape_.experts_used);
      Key("expert_feed_forward_length", shape_.expert_ff);
    }
    AddRopeScaling();
  }

  void AddTensors() {
    const float spread = 1.0f / std::sqrt(static_cast<float>(shape_.width));
    const bool output_bits = mix_.more_bits && shape_.tied;
    AddMatrix("token_embd.weight", {shape_.width, shape_.vocabulary}, output_bits, spread);
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
      prefix_ = fmt::format("blk.{}.", layer);
      more_bits_ = mix_.more_bits && HasMoreBits(layer, shape_.layers);
      AddAttention();
      AddFeedForward();
    }
    prefix_.clear();
    AddNorm("output_norm.weight", shape_.width);
    if (!shape_.tied) {
      AddMatrix("output.weight", {shape_.width, shape_.vocabulary}, mix_.more_bits, spread);
    }
  }

 private:
  template <class T>
  void Key(std::string_view name, T value) {
    writer_.Set(fmt::format("{}.{}", FamilyName(shape_.family), name), value);
  }

  void AddRopeScaling() {
    switch (shape_.rope_scaling) {
      case RopeScaling::kNone: break;
      case RopeScaling::kLinear:
        Key("rope.scaling.type", std::string_view("linear"));
        Key("rope.scaling.factor", kRopeFactor);
        break;
      case RopeScaling::kYarn:
        Key("rope.scaling.type", std::string_view("yarn"));
        Key("rope.scaling.factor", kRopeFactor);
        Key("rope.scaling.original_context_length", kRopeContext);
        break;
      case RopeScaling::kLlama3: AddRopeDivisors(); break;
    }
  }

  // Llama 3's scaling as converters write it: what each pair's angle is divided by. Long waves by
  // the factor, short ones not at all, those between by something between.
  void AddRopeDivisors() {
    constexpr double kLowFactor = 1.0;
    constexpr double kHighFactor = 4.0;
    std::vector<float> divisors;
    for (uint32_t i = 0; i < shape_.head_dim / 2; ++i) {
      const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(shape_.head_dim);
      const double wave =
          tensor::spec::kTwoPi * tensor::spec::Pow64(double{shape_.rope_base}, exponent);
      const double turns = static_cast<double>(kRopeContext) / wave;  // in the original context
      const double smooth = std::clamp((turns - kLowFactor) / (kHighFactor - kLowFactor), 0.0, 1.0);
      divisors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / double{kRopeFactor} + smooth)));
    }
    const auto bytes = std::as_bytes(std::span(divisors));
    writer_.AddTensor("rope_freqs.weight", DType::kF32, {shape_.head_dim / 2},
                      std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  void AddAttention() {
    const uint32_t q = shape_.heads * shape_.head_dim;
    const uint32_t kv = shape_.kv_heads * shape_.head_dim;
    AddNorm("attn_norm.weight", shape_.width);
    AddMatrix("attn_q.weight", {shape_.width, q});
    AddMatrix("attn_k.weight", {shape_.width, kv});
    AddMatrix("attn_v.weight", {shape_.width, kv}, more_bits_);
    if (shape_.family == Family::kQwen2) {
      AddVector("attn_q.bias", q, 0.0f, 0.2f);
      AddVector("attn_k.bias", kv, 0.0f, 0.2f);
      AddVector("attn_v.bias", kv, 0.0f, 0.2f);
    }
    if (HasHeadNorms()) {
      AddNorm("attn_q_norm.weight", shape_.head_dim);
      AddNorm("attn_k_norm.weight", shape_.head_dim);
    }
    AddMatrix("attn_output.weight", {q, shape_.width});
    if (shape_.family == Family::kGemma3) {
      AddNorm("post_attention_norm.weight", shape_.width);
    }
  }

  void AddFeedForward() {
    AddNorm("ffn_norm.weight", shape_.width);
    if (shape_.experts > 0) {
      AddTensor("ffn_gate_inp.weight", DType::kF32, {shape_.width, shape_.experts}, 0.0f,
                1.0f / std::sqrt(static_cast<float>(shape_.width)));
      AddMatrix("ffn_gate_exps.weight", {shape_.width, shape_.expert_ff, shape_.experts});
      AddMatrix("ffn_up_exps.weight", {shape_.width, shape_.expert_ff, shape_.experts});
      AddMatrix("ffn_down_exps.weight", {shape_.expert_ff, shape_.width, shape_.experts},
                more_bits_);
    } else {
      AddMatrix("ffn_gate.weight", {shape_.width, shape_.ff});
      AddMatrix("ffn_up.weight", {shape_.width, shape_.ff});
      AddMatrix("ffn_down.weight", {shape_.ff, shape_.width}, more_bits_);
    }
    if (shape_.family == Family::kGemma3) {
      AddNorm("post_ffw_norm.weight", shape_.width);
    }
  }

  bool HasHeadNorms() const {
    return shape_.family == Family::kQwen3 || shape_.family == Family::kQwen3Moe ||
           shape_.family == Family::kGemma3;
  }

  void AddNorm(std::string_view name, int64_t size) { AddVector(name, size, 1.0f, 0.05f); }
  void AddVector(std::string_view name, int64_t size, float mean, float deviation) {
    AddTensor(name, DType::kF32, {size}, mean, deviation);
  }

  // Deviation 1/sqrt(row length), unless given, keeps the outputs as large as the inputs.
  void AddMatrix(std::string_view name, std::vector<int64_t> shape, bool more_bits = false,
                 float deviation = 0.0f) {
    const DType type = TypeForRow(more_bits ? DType::kQ6K : mix_.base, shape[0]);
    if (deviation == 0.0f) {
      deviation = 1.0f / std::sqrt(static_cast<float>(shape[0]));
    }
    AddTensor(name, type, std::move(shape), 0.0f, deviation);
  }

  void AddTensor(std::string_view name, DType type, std::vector<int64_t> shape, float mean,
                 float deviation) {
    const std::string full_name = prefix_ + std::string(name);
    int64_t rows = 1;
    for (size_t i = 1; i < shape.size(); ++i) {
      rows *= shape[i];
    }
    const auto source =
        std::make_shared<RandomRows>(weights_, full_name, type, shape[0], rows, mean, deviation);
    writer_.AddTensor(
        full_name, type, std::move(shape),
        [source](int64_t first, std::span<std::byte> out) { source->Fill(first, out); });
  }

  const ModelShape& shape_;
  const TypeMix& mix_;
  const WeightOptions& weights_;
  tensor::GgufWriter& writer_;
  std::string prefix_;      // of the layer that is being added
  bool more_bits_ = false;  // in this layer
};

template <class Value, size_t kCount>
std::optional<Value> FindIn(const std::array<std::string_view, kCount>& names,
                            std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<Value>(at - names.begin()));
}

}  // namespace

std::optional<Family> FindFamily(std::string_view name) {
  return FindIn<Family>(kFamilies, name);
}
std::string_view FamilyName(Family family) {
  return kFamilies[static_cast<size_t>(family)];
}
std::optional<RopeScaling> FindRopeScaling(std::string_view name) {
  return FindIn<RopeScaling>(kRopeScalings, name);
}

std::optional<TypeMix> FindTypeMix(std::string_view name) {
  const bool more_bits = name.ends_with("_M") || name.ends_with("_m");
  if (more_bits) {
    name.remove_suffix(2);
  }
  const tensor::DTypeInfo* info = tensor::FindDType(name);
  if (info == nullptr || info->support != tensor::DTypeSupport::kComputed) {
    return std::nullopt;
  }
  if (more_bits && info->type != DType::kQ4K && info->type != DType::kQ5K) {
    return std::nullopt;
  }
  return TypeMix{.base = info->type, .more_bits = more_bits};
}

void AddModel(const ModelShape& shape, const TypeMix& mix, const WeightOptions& weights,
              tensor::GgufWriter& writer) {
  ModelMaker maker(shape, mix, weights, writer);
  maker.AddKeys();
  maker.AddTensors();
}

}  // namespace fak::tiny

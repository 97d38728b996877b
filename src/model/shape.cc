#include "model/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/limits.h"
#include "model/families.h"

namespace fak::model {
namespace {

using tensor::GgufFile;

class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + ".") {}
  std::string operator()(std::string_view name) const { return prefix_ + std::string(name); }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

Result<uint32_t> Bounded(const Keys& key, std::string_view name, uint32_t max) {
  TRY_ASSIGN(const uint32_t value, key.file().GetU32(key(name)));
  if (value == 0 || value > max) {
    return Fail(Code::kDataCorrupt, key(name) + " is " + std::to_string(value) + "; must be 1 to " +
                                        std::to_string(max));
  }
  return value;
}

Result<float> RopeBase(const Keys& key, std::string_view name) {
  TRY_ASSIGN(const float base, key.file().GetF32(key(name), 10000.0f));
  if (!(base > 1.0f)) {
    return Fail(Code::kDataCorrupt, key(name) + " must be above 1");
  }
  return base;
}

Result<RopeShape> ReadRope(const Keys& key, uint32_t head_dim, uint32_t context) {
  const GgufFile& file = key.file();
  RopeShape rope;
  TRY_ASSIGN(rope.dims, file.GetU32(key("rope.dimension_count"), head_dim));
  if (rope.dims == 0 || rope.dims % 2 != 0 || rope.dims > head_dim) {
    return Fail(Code::kDataCorrupt, key("rope.dimension_count") + " is " +
                                        std::to_string(rope.dims) + "; must be even and at most " +
                                        std::to_string(head_dim));
  }
  TRY_ASSIGN(rope.base, RopeBase(key, "rope.freq_base"));
  const bool has_legacy = file.Has(key("rope.scale_linear"));
  TRY_ASSIGN(const float legacy, file.GetF32(key("rope.scale_linear"), 1.0f));
  TRY_ASSIGN(rope.factor, file.GetF32(key("rope.scaling.factor"), has_legacy ? legacy : 1.0f));
  TRY_ASSIGN(const std::string_view type,
             file.GetString(key("rope.scaling.type"), rope.factor == 1.0 ? "none" : "linear"));
  if (!(rope.factor >= 1.0) || rope.factor > 1e6) {
    return Fail(Code::kDataCorrupt, key("rope.scaling.factor") + " must be 1 to 1e6");
  }
  if (type == "none") {
    rope.scaling = RopeScaling::kNone;
  } else if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
  } else {
    return Fail(Code::kUnsupported, key("rope.scaling.type") + " \"" + tensor::PrintableName(type) +
                                        "\" is not one of none, linear, yarn");
  }
  TRY_ASSIGN(const uint32_t original,
             file.GetU32(key("rope.scaling.original_context_length"), context));
  rope.original_context = original;
  TRY_ASSIGN(rope.attention_factor, file.GetF32(key("rope.scaling.attn_factor"), 1.0f));
  TRY_ASSIGN(rope.beta_fast, file.GetF32(key("rope.scaling.yarn_beta_fast"), 32.0f));
  TRY_ASSIGN(rope.beta_slow, file.GetF32(key("rope.scaling.yarn_beta_slow"), 1.0f));
  return rope;
}

// Keys by which a file says that it is computed otherwise than here are refused, unless the value
// is one that changes nothing.
Status NotServed(const std::string& key, const std::string& value) {
  return Fail(Code::kUnsupported, key + " is " + value + ": that is not computed here");
}

Status RefuseAbove(const Keys& key, std::string_view name, uint32_t neutral) {
  TRY_ASSIGN(const uint32_t value, key.file().GetU32(key(name), neutral));
  return value <= neutral ? Status() : NotServed(key(name), std::to_string(value));
}

Status RefuseFalse(const Keys& key, std::string_view name) {
  TRY_ASSIGN(const bool value, key.file().GetBool(key(name), true));
  return value ? Status() : NotServed(key(name), "false");
}

// 0 is how files say that there is none.
Status RefuseOtherThan(const Keys& key, std::string_view name, float neutral) {
  TRY_ASSIGN(const float value, key.file().GetF32(key(name), 0.0f));
  const bool same = std::abs(value - neutral) <= 1e-6f * std::abs(neutral);
  return value == 0.0f || same ? Status() : NotServed(key(name), fmt::format("{:g}", value));
}

Status RefuseWhatIsNotComputed(const Keys& key, const Family& family, const ModelShape& shape) {
  TRY(RefuseFalse(key, "attention.causal"));
  for (const char* name :
       {"attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping"}) {
    TRY(RefuseOtherThan(key, name, 0.0f));
  }
  for (const char* name : {"logit_scale", "embedding_scale", "residual_scale"}) {
    TRY(RefuseOtherThan(key, name, 1.0f));
  }
  if (family.windows) {  // gemma3 goes by its depth
    return RefuseOtherThan(key, "attention.scale", 0.0f);
  }
  TRY(RefuseOtherThan(key, "attention.scale", AttentionScale(shape.layers.front().heads.dim)));
  TRY_ASSIGN(const uint32_t window, key.file().GetU32(key("attention.sliding_window"), 0u));
  return window < 1 || window >= shape.context
             ? Status()
             : NotServed(key("attention.sliding_window"), std::to_string(window));
}

Status ReadExperts(const Keys& key, ModelShape& shape) {
  constexpr uint32_t kSoftmax = 1;  // 0: not said
  TRY(RefuseAbove(key, "expert_gating_func", kSoftmax));
  TRY(RefuseAbove(key, "expert_group_count", 1));
  TRY(RefuseAbove(key, "expert_shared_count", 0));
  TRY(RefuseFalse(key, "expert_weights_norm"));
  TRY(RefuseOtherThan(key, "expert_weights_scale", 1.0f));
  TRY_ASSIGN(shape.experts, Bounded(key, "expert_count", limits::kExpertsMax));
  TRY_ASSIGN(shape.experts_used, Bounded(key, "expert_used_count", shape.experts));
  TRY_ASSIGN(shape.expert_feed_forward,
             Bounded(key, "expert_feed_forward_length", limits::kFeedForwardMax));
  return {};
}

// gemma3: five layers see a window, the sixth sees all.
Status ReadWindows(const Keys& key, ModelShape& shape) {
  const GgufFile& file = key.file();
  TRY_ASSIGN(const uint32_t window, file.GetU32(key("attention.sliding_window"), 0u));
  if (window == 0) {
    return {};
  }
  const auto layers = static_cast<uint32_t>(shape.layers.size());
  std::vector<bool> windowed(layers);
  constexpr uint32_t kPattern = 6;
  for (uint32_t i = 0; i < layers; ++i) {
    windowed[i] = (i + 1) % kPattern != 0;
  }
  const std::string pattern_key = key("attention.sliding_window_pattern");
  if (const tensor::GgufValue* pattern = file.Find(pattern_key)) {
    if (pattern->is_array()) {
      TRY_ASSIGN(windowed, file.GetBoolPerLayer(pattern_key, layers));
    } else {
      TRY_ASSIGN(const uint32_t every, Bounded(key, "attention.sliding_window_pattern", layers));
      for (uint32_t i = 0; i < layers; ++i) {
        windowed[i] = (i + 1) % every != 0;
      }
    }
  }
  for (uint32_t i = 0; i < layers; ++i) {
    shape.layers[i].window = windowed[i] ? window : 0;
  }
  return {};
}

Status ReadLayers(const Keys& key, uint32_t layers, ModelShape& shape) {
  const GgufFile& file = key.file();
  TRY_ASSIGN(const auto q_heads, file.GetU32PerLayer(key("attention.head_count"), layers));
  std::vector<uint32_t> kv_heads = q_heads;
  if (file.Has(key("attention.head_count_kv"))) {
    TRY_ASSIGN(kv_heads, file.GetU32PerLayer(key("attention.head_count_kv"), layers));
  }
  std::vector<uint32_t> feed_forward(layers, 0);
  if (shape.experts == 0) {
    TRY_ASSIGN(feed_forward, file.GetU32PerLayer(key("feed_forward_length"), layers));
  }
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string where = "layer " + std::to_string(i) + ": ";
    if (q_heads[i] == 0 || kv_heads[i] == 0 || q_heads[i] > limits::kHeadsMax ||
        q_heads[i] % kv_heads[i] != 0) {
      return Fail(Code::kDataCorrupt, where + std::to_string(q_heads[i]) + " query heads over " +
                                          std::to_string(kv_heads[i]) + " KV heads");
    }
    const uint32_t default_dim = shape.width / q_heads[i];
    TRY_ASSIGN(const uint32_t dim, file.GetU32(key("attention.key_length"), default_dim));
    TRY_ASSIGN(const uint32_t value_dim, file.GetU32(key("attention.value_length"), dim));
    if (dim == 0 || dim % 2 != 0 || dim > limits::kHeadDimMax) {
      return Fail(Code::kDataCorrupt, where + "head dimension " + std::to_string(dim));
    }
    if (value_dim != dim) {
      return Fail(Code::kUnsupported, where + "keys of " + std::to_string(dim) + " and values of " +
                                          std::to_string(value_dim) + " dimensions differ");
    }
    if (shape.experts == 0 && (feed_forward[i] == 0 || feed_forward[i] > limits::kFeedForwardMax)) {
      return Fail(Code::kDataCorrupt,
                  where + "feed forward length " + std::to_string(feed_forward[i]));
    }
    shape.layers.push_back({{q_heads[i], kv_heads[i], dim}, feed_forward[i], 0});
  }
  return {};
}

Result<ModelShape> ReadFields(const GgufFile& file) {
  TRY_ASSIGN(const std::string_view architecture, file.GetString("general.architecture"));
  TRY_ASSIGN(const std::string_view type, file.GetString("general.type", "model"));
  if (type != "model") {
    return Fail(Code::kUnsupported, "general.type is \"" + tensor::PrintableName(type) +
                                        "\": only \"model\" generates text");
  }
  const Family* family = FindFamily(architecture);
  if (family == nullptr) {
    return Fail(Code::kUnsupported, "architecture \"" + tensor::PrintableName(architecture) +
                                        "\" is not one of " + FamilyNames());
  }
  ModelShape shape;
  shape.architecture = std::string(architecture);
  const Keys key(file, shape.architecture);
  TRY_ASSIGN(const uint32_t layers, Bounded(key, "block_count", limits::kLayersMax));
  TRY_ASSIGN(shape.width, Bounded(key, "embedding_length", limits::kEmbeddingMax));
  TRY_ASSIGN(shape.context, Bounded(key, "context_length", limits::kContextMax));
  TRY_ASSIGN(shape.eps, file.GetF32(key("attention.layer_norm_rms_epsilon")));
  if (!(shape.eps >= 0.0f) || shape.eps > 1.0f) {
    return Fail(Code::kDataCorrupt, key("attention.layer_norm_rms_epsilon") + " must be 0 to 1");
  }
  TRY_ASSIGN(const tensor::GgufStrings tokens, file.GetStrings("tokenizer.ggml.tokens"));
  if (tokens.empty() || tokens.size() > limits::kVocabularyMax) {
    return Fail(Code::kDataCorrupt,
                "tokenizer.ggml.tokens has " + std::to_string(tokens.size()) + " entries");
  }
  shape.vocabulary = static_cast<uint32_t>(tokens.size());
  if (family->experts) {
    TRY(ReadExperts(key, shape));
  } else {
    TRY_ASSIGN(const uint32_t experts, file.GetU32(key("expert_count"), 0u));
    if (experts != 0) {
      return Fail(Code::kUnsupported, key("expert_count") + " is " + std::to_string(experts) +
                                          ": experts of this architecture are not served here");
    }
  }
  TRY(ReadLayers(key, layers, shape));
  TRY(RefuseWhatIsNotComputed(key, *family, shape));
  TRY_ASSIGN(shape.rope, ReadRope(key, shape.layers.front().heads.dim, shape.context));
  if (family->windows) {
    TRY(ReadWindows(key, shape));
    shape.rope_local = RopeShape{.dims = shape.rope.dims};
    TRY_ASSIGN(shape.rope_local.base, RopeBase(key, "rope.freq_base_swa"));
  }
  return shape;
}

}  // namespace

Error InFile(const GgufFile& file, Error error) {
  for (size_t part = 0; part < file.parts(); ++part) {
    if (error.detail.starts_with(file.part_path(part) + ": ")) {
      return error;
    }
  }
  return Within(file.part_path(0), std::move(error));
}

Result<ModelShape> ReadShape(const GgufFile& file) {
  Result<ModelShape> shape = ReadFields(file);
  return shape ? std::move(shape) : Fail(InFile(file, std::move(shape).error()));
}

}  // namespace fak::model

#include "model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/test_folder.h"
#include "model/card.h"
#include "tensor/cpu_backend.h"
#include "tests/tiny/tiny_model.h"

namespace fak::model {
namespace {

// Of the first attention that the program of a tiny gemma has.
float ScaleOf(const tiny::TinyOptions& options) {
  const TestFolder folder;
  const std::string path = folder.Path("model.gguf");
  EXPECT_TRUE(tiny::WriteTinyModel(options, path));
  const auto file = ModelFile::Open(path);
  EXPECT_TRUE(file) << file.error().detail;
  const auto backend = *tensor::CreateCpuBackend({.threads = 1});
  const auto loaded = (*file)->Load(*backend);
  EXPECT_TRUE(loaded) << loaded.error().detail;
  for (const tensor::Op& op : loaded->program.ops) {
    if (const auto* attention = std::get_if<tensor::AttentionOp>(&op)) {
      return attention->scale;
    }
  }
  return 0.0f;
}

TEST(Gemma3, ScalesScoresByTheWidthOfAHeadButInThe27BByWidthOverHeads) {
  EXPECT_EQ(ScaleOf({.family = tiny::Family::kGemma3}), 1.0f / std::sqrt(64.0f));
  EXPECT_EQ(ScaleOf({.family = tiny::Family::kGemma3, .deep = true}),
            1.0f / std::sqrt(128.0f / 4.0f));
}

// A tiny model of a type, in one file or in parts, with these two bytes at a place of a tensor.
std::string Damaged(const TestFolder& folder, tensor::DType type, uint16_t parts,
                    const std::string& tensor_name, uint64_t at, std::string_view bytes) {
  const tiny::TinyOptions options{.mix = {type}};
  std::string path = folder.Path("model.gguf");
  if (parts == 1) {
    EXPECT_TRUE(tiny::WriteTinyModel(options, path));
  } else {
    EXPECT_TRUE(tiny::MakeTinyModel(options).WriteSplit(folder.Path("model"), parts));
    path = folder.Path("model-00001-of-00003.gguf");
  }
  const auto file = *tensor::GgufFile::Open(path);
  const tensor::GgufTensor& tensor = *file->FindTensor(tensor_name);
  std::fstream stream(file->part_path(tensor.part),
                      std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(tensor.offset + at));
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(stream.good());
  return path;
}

// What loading says and what checking says, which must be one.
std::string WhatIsWrong(const std::string& path) {
  const auto file = *ModelFile::Open(path);
  const auto backend = *tensor::CreateCpuBackend({.threads = 2});
  const auto loaded = file->Load(*backend);
  const Status checked = file->CheckWeights(nullptr);
  EXPECT_FALSE(loaded);
  EXPECT_FALSE(checked);
  if (loaded || checked) {
    return "";
  }
  EXPECT_EQ(loaded.error().code, Code::kDataCorrupt);
  EXPECT_EQ(loaded.error().detail, checked.error().detail);
  return loaded.error().detail;
}

uint64_t PlaceOf(const std::string& path, const std::string& tensor_name, uint64_t at) {
  return (*tensor::GgufFile::Open(path))->FindTensor(tensor_name)->offset + at;
}

TEST(NonFiniteWeights, AreNamedByFileTensorBlockAndByte) {
  const TestFolder folder;
  const std::string name = "blk.1.ffn_down.weight";
  const std::string nan("\x01\x7e", 2);
  const uint64_t at = uint64_t{700} * 34;  // a block of Q8_0 has 34 bytes, its scale comes first
  const std::string path = Damaged(folder, tensor::DType::kQ8_0, 1, name, at, nan);
  EXPECT_EQ(WhatIsWrong(path), path + ": tensor " + name +
                                   ": block 700 (elements 22400 to 22431), at byte " +
                                   std::to_string(PlaceOf(path, name, at)) +
                                   " of the file, has a scale that is not finite");
}

TEST(NonFiniteWeights, OfTypesWithoutBlocksAreNamedByElement) {
  const TestFolder folder;
  const std::string name = "blk.2.attn_norm.weight";
  const std::string infinite("\x80\x7f", 2);
  const std::string path = Damaged(folder, tensor::DType::kQ8_0, 1, name, 4 * 9 + 2, infinite);
  EXPECT_EQ(WhatIsWrong(path), path + ": tensor " + name + ": element 9, at byte " +
                                   std::to_string(PlaceOf(path, name, 4 * 9)) +
                                   " of the file, is not finite");
}

TEST(NonFiniteWeights, OfASplitModelAreNamedByTheirPart) {
  const TestFolder folder;
  const std::string name = "blk.1.ffn_down.weight";
  const std::string path =
      Damaged(folder, tensor::DType::kF16, 3, name, 2 * 1000, std::string("\x00\x7c", 2));
  const auto file = *tensor::GgufFile::Open(path);
  const std::string part = file->part_path(file->FindTensor(name)->part);
  EXPECT_NE(part, path);
  EXPECT_EQ(WhatIsWrong(path), part + ": tensor " + name + ": element 1000, at byte " +
                                   std::to_string(PlaceOf(path, name, 2 * 1000)) +
                                   " of the file, is not finite");
}

TEST(NonFiniteWeights, AreNoneInAWholeModel) {
  const TestFolder folder;
  const std::string path = folder.Path("model.gguf");
  ASSERT_TRUE(tiny::WriteTinyModel({.mix = {tensor::DType::kQ4K}}, path));
  const auto file = *ModelFile::Open(path);
  uint64_t read = 0;
  uint64_t all = 0;
  EXPECT_TRUE(file->CheckWeights([&](uint64_t done, uint64_t total) {
    read = done;
    all = total;
  }));
  EXPECT_GT(all, 0u);
  EXPECT_EQ(read, all);
}

// What opening, pricing and making the card of a tiny model with one key changed say.
template <class Value>
std::string WhatIsSaid(const tiny::TinyOptions& options, std::string_view key, Value value) {
  const TestFolder folder;
  const std::string path = folder.Path("model.gguf");
  tensor::GgufWriter writer = tiny::MakeTinyModel(options);
  writer.Set(key, value);
  EXPECT_TRUE(writer.Write(path));
  const auto opened = ModelFile::Open(path);
  const auto card = MakeCard(**tensor::GgufFile::Open(path), std::nullopt);
  EXPECT_FALSE(opened && card);
  const std::string said = !opened ? opened.error().detail : !card ? card.error().detail : "";
  EXPECT_TRUE(said.starts_with(path + ": ")) << said;
  return said.substr(std::min(said.size(), path.size() + 2));
}

TEST(BadHead, IsRefusedWithTheFilesNameOnce) {
  EXPECT_EQ(WhatIsSaid({}, "llama.rope.freq_base", 1.0f), "llama.rope.freq_base must be above 1");
  EXPECT_EQ(WhatIsSaid({.family = tiny::Family::kGemma3}, "gemma3.rope.freq_base_swa", 0.0f),
            "gemma3.rope.freq_base_swa must be above 1");
  EXPECT_EQ(WhatIsSaid({}, "llama.attention.head_count", uint32_t{3}),
            "layer 0: 3 query heads over 2 KV heads");
  EXPECT_EQ(WhatIsSaid({}, "llama.block_count", uint32_t{0}),
            "llama.block_count is 0; must be 1 to 512");
  EXPECT_EQ(WhatIsSaid({}, "llama.context_length", std::string_view("2k")),
            "metadata key 'llama.context_length': is string and must be an integer");
  EXPECT_EQ(WhatIsSaid({}, "tokenizer.ggml.eos_token_id", uint32_t{1'000'000}),
            "tokenizer.ggml.eos_token_id is 1000000 of 303 tokens");
  EXPECT_EQ(WhatIsSaid({}, "tokenizer.ggml.model", std::string_view("wordlevel")),
            "tokenizer model 'wordlevel' is not supported (we have gpt2 and llama)");
}

TEST(BadHead, ThatAsksForAnotherComputationIsRefusedByItsKey) {
  const auto refused = [](tiny::Family family, const std::string& name, auto value,
                          const std::string& shown) {
    const std::string key = std::string(tiny::FamilyName(family)) + "." + name;
    EXPECT_EQ(WhatIsSaid({.family = family}, key, value),
              key + " is " + shown + ": that is not computed here");
  };
  using enum tiny::Family;
  for (const tiny::Family family : {kLlama, kQwen3Moe, kGemma3}) {
    refused(family, "attention.causal", false, "false");
    refused(family, "attention.scale", 0.5f, "0.5");
    for (const char* name :
         {"attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping", "logit_scale",
          "embedding_scale", "residual_scale"}) {
      refused(family, name, 30.0f, "30");
    }
  }
  refused(kLlama, "attention.sliding_window", uint32_t{1024}, "1024");
  refused(kQwen3Moe, "expert_gating_func", uint32_t{2}, "2");
  refused(kQwen3Moe, "expert_group_count", uint32_t{8}, "8");
  refused(kQwen3Moe, "expert_shared_count", uint32_t{1}, "1");
  refused(kQwen3Moe, "expert_weights_norm", false, "false");
  refused(kQwen3Moe, "expert_weights_scale", 2.5f, "2.5");
  EXPECT_EQ(WhatIsSaid({}, "general.type", std::string_view("mmproj")),
            "general.type is \"mmproj\": only \"model\" generates text");
}

TEST(GoodHead, MaySayWhatIsComputedAnyway) {
  const auto opens = [](tiny::Family family, const std::string& name, auto value) {
    const TestFolder folder;
    tensor::GgufWriter writer = tiny::MakeTinyModel({.family = family});
    writer.Set(std::string(tiny::FamilyName(family)) + "." + name, value);
    ASSERT_TRUE(writer.Write(folder.Path("model.gguf")));
    const auto opened = ModelFile::Open(folder.Path("model.gguf"));
    EXPECT_TRUE(opened) << opened.error().detail;
  };
  using enum tiny::Family;
  for (const tiny::Family family : {kLlama, kQwen3Moe, kGemma3}) {
    opens(family, "attention.causal", true);
    opens(family, "attention.scale", 0.0f);
    opens(family, "final_logit_softcapping", 0.0f);
    opens(family, "logit_scale", 1.0f);
  }
  opens(kLlama, "attention.scale", 0.125f);  // of heads of 64
  opens(kLlama, "attention.sliding_window", uint32_t{2048});
  opens(kLlama, "attention.sliding_window", uint32_t{0});
  opens(kQwen3Moe, "expert_gating_func", uint32_t{1});
  opens(kQwen3Moe, "expert_group_count", uint32_t{1});
  opens(kQwen3Moe, "expert_weights_norm", true);
  opens(kQwen3Moe, "expert_weights_scale", 1.0f);
}

TEST(RopeFactors, MustDivide) {
  const TestFolder folder;
  const std::string path = folder.Path("model.gguf");
  ASSERT_TRUE(tiny::WriteTinyModel({.rope_scaling = tiny::RopeScaling::kLlama3}, path));
  const uint64_t at = PlaceOf(path, "rope_freqs.weight", 4 * 3);
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.write("\0\0\0\0", 4);
  stream.close();
  const auto backend = *tensor::CreateCpuBackend({.threads = 1});
  const auto price = (*ModelFile::Open(path))->Price(*backend, {}, {});
  ASSERT_FALSE(price);
  EXPECT_EQ(price.error().detail, path + ": tensor rope_freqs.weight: element 3 must be above 0");
}

}  // namespace
}  // namespace fak::model

#include "tests/tiny/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "tensor/block_check.h"
#include "tensor/gguf.h"
#include "tests/tiny/vocabulary.h"

namespace fak::tiny {
namespace {

using tensor::DType;
using tensor::GgufFile;
using tensor::GgufTensor;

constexpr Family kFamilies[] = {Family::kLlama, Family::kQwen2, Family::kQwen3, Family::kQwen3Moe,
                                Family::kGemma3};

class TinyModelTest : public testing::Test {
 protected:
  std::unique_ptr<GgufFile> Open(const TinyOptions& options) const {
    const std::string path = folder_.Path("model.gguf");
    const Status written = WriteTinyModel(options, path);
    EXPECT_TRUE(written);
    auto file = GgufFile::Open(path);
    EXPECT_TRUE(file) << file.error().detail;
    return file ? std::move(*file) : nullptr;
  }

  const TestFolder folder_;
};

std::vector<std::byte> BytesOf(const GgufFile& file, const GgufTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  EXPECT_TRUE(file.Read(tensor, 0, bytes));
  return bytes;
}

void ExpectMatricesOf(DType type, const GgufFile& file) {
  for (const GgufTensor& tensor : file.tensors()) {
    const bool router = tensor.name.ends_with("ffn_gate_inp.weight");
    EXPECT_EQ(tensor.type, tensor.dims > 1 && !router ? type : DType::kF32) << tensor.name;
    EXPECT_EQ(tensor::FirstNonFiniteBlock(tensor.type, BytesOf(file, tensor)), std::nullopt);
  }
}

TEST_F(TinyModelTest, StoresMatricesInTheTypeAskedForAndTheRestInF32) {
  for (const tensor::DTypeInfo& type : tensor::AllDTypes()) {
    if (type.support == tensor::DTypeSupport::kComputed) {
      SCOPED_TRACE(type.name);
      ExpectMatricesOf(type.type, *Open({.mix = {.base = type.type}}));
    }
  }
  for (const Family family : kFamilies) {
    SCOPED_TRACE(FamilyName(family));
    ExpectMatricesOf(DType::kQ4_0, *Open({.family = family, .mix = {.base = DType::kQ4_0}}));
  }
}

TEST_F(TinyModelTest, HasTheKeysAndTensorsOfItsFamily) {
  struct Case {
    Family family;
    std::vector<std::string> keys;
    std::vector<std::string> tensors;
    size_t tensors_in_all;
  };
  const std::vector<Case> cases = {
      {Family::kLlama, {"rope.dimension_count", "vocab_size"}, {"output.weight"}, 3 + 3 * 9},
      {Family::kQwen2,
       {},
       {"blk.2.attn_q.bias", "blk.2.attn_k.bias", "blk.2.attn_v.bias"},
       3 + 3 * 12},
      {Family::kQwen3, {"attention.key_length"}, {"blk.0.attn_q_norm.weight"}, 3 + 3 * 11},
      {Family::kQwen3Moe,
       {"expert_count", "expert_used_count", "expert_feed_forward_length"},
       {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_down_exps.weight"},
       3 + 3 * 12},
      {Family::kGemma3,
       {"attention.sliding_window"},
       {"blk.6.post_attention_norm.weight", "blk.6.post_ffw_norm.weight"},
       2 + 7 * 13},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(FamilyName(c.family));
    const auto file = Open({.family = c.family});
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->GetString("general.architecture").value(), FamilyName(c.family));
    for (const std::string& key : c.keys) {
      EXPECT_TRUE(file->Has(std::string(FamilyName(c.family)) + "." + key)) << key;
    }
    for (const std::string& tensor : c.tensors) {
      EXPECT_NE(file->FindTensor(tensor), nullptr) << tensor;
    }
    EXPECT_EQ(file->tensors().size(), c.tensors_in_all);
    const auto tokens = file->GetStrings("tokenizer.ggml.tokens");
    EXPECT_EQ(static_cast<size_t>(file->FindTensor("token_embd.weight")->shape[1]), tokens->size());
    EXPECT_EQ(tokens->size() % 2, 1u) << "an odd vocabulary finds kernels that want even ones";
  }
}

TEST_F(TinyModelTest, LeavesOutTheOutputMatrixOfTiedModels) {
  EXPECT_EQ(Open({.family = Family::kQwen3, .tied = true})->FindTensor("output.weight"), nullptr);
}

TEST_F(TinyModelTest, ScalesRotaryPositionsAsFilesDo) {
  EXPECT_EQ(
      Open({.rope_scaling = RopeScaling::kLinear})->GetString("llama.rope.scaling.type").value(),
      "linear");
  const auto yarn = Open({.family = Family::kQwen2, .rope_scaling = RopeScaling::kYarn});
  EXPECT_EQ(yarn->GetU32("qwen2.rope.scaling.original_context_length").value(), 512u);
  const auto llama3 = Open({.rope_scaling = RopeScaling::kLlama3});
  const GgufTensor* tensor = llama3->FindTensor("rope_freqs.weight");
  ASSERT_NE(tensor, nullptr);
  std::vector<float> divisors(32);
  ASSERT_TRUE(llama3->Read(*tensor, 0, std::as_writable_bytes(std::span(divisors))));
  EXPECT_EQ(divisors.front(), 1.0f);
  EXPECT_EQ(divisors.back(), 4.0f);
  EXPECT_TRUE(std::is_sorted(divisors.begin(), divisors.end()));
}

TEST_F(TinyModelTest, MixesTypesAsLlamaCppDoes) {
  const auto file = Open({.family = Family::kGemma3, .mix = FindTypeMix("q4_k_m").value()});
  EXPECT_EQ(file->FindTensor("token_embd.weight")->type, DType::kQ6K);
  EXPECT_EQ(file->FindTensor("blk.0.ffn_down.weight")->type, DType::kQ4K);
  EXPECT_EQ(file->FindTensor("blk.2.ffn_down.weight")->type, DType::kQ6K);
  EXPECT_EQ(file->FindTensor("blk.6.attn_v.weight")->type, DType::kQ6K);
  EXPECT_EQ(file->FindTensor("blk.6.attn_k.weight")->type, DType::kQ4K);
}

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_F(TinyModelTest, IsAFunctionOfItsOptions) {
  const std::string path = folder_.Path("model.gguf");
  const auto bytes = [&](const TinyOptions& options) {
    EXPECT_TRUE(WriteTinyModel(options, path));
    return FileBytes(path);
  };
  const std::string first = bytes({.seed = 5});
  EXPECT_EQ(bytes({.seed = 5}), first);
  EXPECT_NE(bytes({.seed = 6}), first);
}

// FNV-1a of whole files. A change moves every golden digest that was made from a tiny model.
TEST_F(TinyModelTest, IsTheSameOnEveryMachine) {
  uint64_t digest = 14695981039346656037u;
  const std::string path = folder_.Path("model.gguf");
  for (const Family family : kFamilies) {
    ASSERT_TRUE(WriteTinyModel(
        {.family = family, .mix = {.base = DType::kQ4K}, .rope_scaling = RopeScaling::kLlama3},
        path));
    for (const char c : FileBytes(path)) {
      digest = (digest ^ static_cast<uint8_t>(c)) * 1099511628211u;
    }
  }
  EXPECT_EQ(digest, 15616984829186531244u);
}

TEST_F(TinyModelTest, RepeatsRowsOnlyWhenAsked) {
  const ModelShape shape = {.layers = 1,
                            .width = 32,
                            .heads = 1,
                            .kv_heads = 1,
                            .head_dim = 32,
                            .ff = 32,
                            .vocabulary = 100,
                            .context = 8,
                            .rope_base = 1e4f};
  for (const int64_t distinct : {int64_t{0}, int64_t{7}}) {
    tensor::GgufWriter writer;
    AddModel(shape, {.base = DType::kQ8_0}, {.seed = 1, .distinct_rows = distinct}, writer);
    ASSERT_TRUE(writer.Write(folder_.Path("model.gguf")));
    const auto file = GgufFile::Open(folder_.Path("model.gguf"));
    ASSERT_TRUE(file);
    const std::vector<std::byte> bytes = BytesOf(**file, *(*file)->FindTensor("token_embd.weight"));
    std::set<std::vector<std::byte>> rows;
    for (size_t i = 0; i < 100; ++i) {
      const auto row = bytes.begin() + static_cast<std::ptrdiff_t>(i * 34);
      rows.insert(std::vector<std::byte>(row, row + 34));
    }
    EXPECT_EQ(rows.size(), distinct == 0 ? 100u : 7u);
  }
}

TEST(Vocabulary, HasUniqueTokensAndMergesThatLeadToTokens) {
  for (const Vocabulary& v :
       {ByteLevelVocabulary("gpt-2"), SentencePieceVocabulary(), GemmaVocabulary()}) {
    const std::set<std::string> tokens(v.tokens.begin(), v.tokens.end());
    EXPECT_EQ(tokens.size(), v.tokens.size());
    EXPECT_EQ(v.types.size(), v.tokens.size());
    EXPECT_TRUE(v.scores.empty() || v.scores.size() == v.tokens.size());
    for (const std::string& merge : v.merges) {
      const size_t space = merge.find(' ');
      EXPECT_TRUE(tokens.contains(merge.substr(0, space))) << merge;
      EXPECT_TRUE(tokens.contains(merge.substr(space + 1))) << merge;
      EXPECT_TRUE(tokens.contains(merge.substr(0, space) + merge.substr(space + 1))) << merge;
    }
  }
}

}  // namespace
}  // namespace fak::tiny

#include "model/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_folder.h"
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

}  // namespace
}  // namespace fak::model

#include "engine/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/test_support.h"
#include "model/model.h"

namespace fak::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A model file of its own, to be damaged.
class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest() : path_(TinyModelPath() + ".copy") {
    fs::copy_file(TinyModelPath(), path_, fs::copy_options::overwrite_existing);
  }
  ~LoaderTest() override { fs::remove(path_); }

  const std::string path_;
};

TEST_F(LoaderTest, AFileCutShortWhileItIsLoadedIsAnError) {
  auto backend = *tensor::CreateCpuBackend({});
  const auto file = *model::ModelFile::Open(path_);
  fs::resize_file(path_, fs::file_size(path_) / 2);
  const auto loaded = file->Load(*backend);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kDataCorrupt);
  EXPECT_THAT(loaded.error().detail, HasSubstr("tensor '"));
  EXPECT_THAT(loaded.error().detail,
              HasSubstr(path_ + ": the file was cut short after it was opened"));
}

TEST_F(LoaderTest, ALoadedModelNeedsItsFileNoMore) {
  TinyDriver whole;
  Ask ask{.prompt = Tokens(40)};
  ask.sampling.temperature = 0.0f;
  ask.sampling.max_tokens = 20;
  const auto expected = whole.Run(ask);
  auto engine = LoadEngine(path_, *tensor::CreateCpuBackend({}), TinyOptions());
  ASSERT_TRUE(engine) << engine.error().detail;
  fs::resize_file(path_, 0);
  TinyDriver cut(*std::move(engine));
  EXPECT_EQ(cut.Run(ask)->choice().tokens, expected->choice().tokens);
}

}  // namespace
}  // namespace fak::engine

#include "model/card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_folder.h"
#include "tests/tiny/tiny_model.h"
#include "text/chat_template.h"

namespace fak::model {
namespace {

using ::testing::HasSubstr;

class CardTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const text::ModelCard>> CardOf(const tensor::GgufWriter& model) const {
    TRY(model.Write(path_));
    return CardLoader().Load(path_, std::nullopt);
  }

  template <class T>
  Result<std::shared_ptr<const text::ModelCard>> CardWith(std::string_view key, T value) const {
    tensor::GgufWriter model = tiny::MakeTinyModel({});
    model.Set(key, value);
    return CardOf(model);
  }

  template <class T>
  void ExpectRefused(const std::string& key, T value) const {
    const auto card = CardWith(key, value);
    ASSERT_FALSE(card) << key << " " << value;
    EXPECT_EQ(card.error().code, Code::kDataCorrupt);
    EXPECT_THAT(card.error().detail, HasSubstr(key));
  }

  const TestFolder folder_;
  const std::string path_ = folder_.Path("model.gguf");
};

TEST_F(CardTest, TakesTheSamplingThatTheFileRecommends) {
  tensor::GgufWriter model = tiny::MakeTinyModel({});
  model.Set("general.sampling.temp", 0.6f);
  model.Set("general.sampling.top_p", 1.0f);
  model.Set("general.sampling.min_p", 0.0f);
  model.Set("general.sampling.top_k", int32_t{-1});
  model.Set("general.sampling.penalty_repeat", 1.1f);
  const auto card = CardOf(model);
  ASSERT_TRUE(card) << card.error().detail;
  const text::SamplingDefaults& sampling = (*card)->sampling;
  EXPECT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_p, 1.0f);
  EXPECT_EQ(sampling.min_p, 0.0f);
  EXPECT_EQ(sampling.top_k, -1);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
}

TEST_F(CardTest, SaysThatAFileWithoutAPreTokenizerIsCutByTheDefault) {
  tensor::GgufWriter silent;
  {
    const Status written = tiny::MakeTinyModel({}).Write(path_);
    ASSERT_TRUE(written) << written.error().detail;
    const auto file = *tensor::GgufFile::Open(path_);
    for (const tensor::GgufKey& key : file->keys()) {
      if (key.name != "tokenizer.ggml.pre") {
        silent.Copy(key);
      }
    }
  }
  const auto guessed = CardOf(silent);
  ASSERT_TRUE(guessed) << guessed.error().detail;
  ASSERT_EQ((*guessed)->notes.size(), 1u);
  EXPECT_THAT((*guessed)->notes.front(), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_TRUE((*CardOf(tiny::MakeTinyModel({})))->notes.empty());
  // SentencePiece has no pre-tokenizer.
  EXPECT_TRUE((*CardOf(tiny::MakeTinyModel({.sentence_piece = true})))->notes.empty());
}

TEST_F(CardTest, IsOfTheMixtureThatTheFileSaysElseOfTheTypeWithMostBytes) {
  const auto quantisation = [this](const tensor::GgufWriter& model) {
    const auto card = CardOf(model);
    EXPECT_TRUE(card) << card.error().detail;
    return card ? (*card)->quantisation : "";
  };
  EXPECT_EQ(quantisation(tiny::MakeTinyModel({.mix = *tiny::FindTypeMix("Q4_K_M")})), "Q4_K_M");
  EXPECT_EQ(quantisation(tiny::MakeTinyModel({.mix = *tiny::FindTypeMix("Q8_0")})), "Q8_0");
  tensor::GgufWriter other = tiny::MakeTinyModel({.mix = *tiny::FindTypeMix("Q8_0")});
  other.Set("general.file_type", uint32_t{1027});  // llama.cpp's guesses have 1024 added
  EXPECT_EQ(quantisation(other), "Q8_0");
}

TEST_F(CardTest, KeepsWhyItsOwnTemplateCannotBeReadForWhoRendersIt) {
  tensor::GgufWriter model = tiny::MakeTinyModel({});
  model.Set("tokenizer.chat_template", std::string_view("{{ messages"));
  const auto card = CardOf(model);
  ASSERT_TRUE(card) << card.error().detail;
  ASSERT_EQ((*card)->notes.size(), 1u);
  EXPECT_THAT((*card)->notes.front(), HasSubstr("chat template: line 1"));
  ASSERT_NE((*card)->maybe_chat_template, nullptr);
  EXPECT_FALSE((*card)->maybe_chat_template->readable());
  const auto rendered = (*card)->maybe_chat_template->Render({});
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code, Code::kUnsupported);
  EXPECT_THAT(rendered.error().detail, HasSubstr("chat template: line 1"));
  // One that is asked for is another matter, and so is a good one in place of the file's.
  EXPECT_EQ(CardLoader().Load(path_, "{% if %}").error().code, Code::kInvalidArgument);
  const auto replaced = CardLoader().Load(path_, "hello");
  ASSERT_TRUE(replaced);
  EXPECT_TRUE((*replaced)->notes.empty());
  EXPECT_TRUE((*replaced)->maybe_chat_template->readable());
}

TEST_F(CardTest, RefusesSamplingThatNoRequestCouldAskForByItsKey) {
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {-1.0f, nan, inf, -inf}) {
    for (const char* name : {"temp", "top_p", "min_p", "penalty_repeat"}) {
      ExpectRefused(std::string("general.sampling.") + name, value);
    }
  }
  ExpectRefused("general.sampling.min_p", 5.0f);
  ExpectRefused("general.sampling.top_p", 0.0f);
  ExpectRefused("general.sampling.top_p", 1.5f);
  ExpectRefused("general.sampling.penalty_repeat", 0.0f);
  ExpectRefused("general.sampling.top_k", int32_t{-7});
  ExpectRefused("general.sampling.top_k", uint32_t{4'000'000'000});
}

}  // namespace
}  // namespace fak::model

// An answer's text, as a driver's client hears it.
#include "engine/answer.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "engine/test_support.h"

namespace fak::engine {
namespace {

// Letters a to e only: text that can be read and cut.
wire::SamplingParams Letters(int32_t tokens) {
  wire::SamplingParams sampling = Drawn(tokens, 11);
  for (int32_t letter = 'a'; letter <= 'e'; ++letter) {
    sampling.logit_bias.emplace_back(letter, 100.0f);
  }
  return sampling;
}

TEST(Answer, StopsAtAStringAndCutsItOff) {
  TinyDriver driver;
  const std::string whole =
      driver.Run({.prompt = Tokens(9), .sampling = Letters(40)})->choice().text;
  ASSERT_EQ(whole.size(), 40u);
  Ask ask{.prompt = Tokens(9), .sampling = Letters(40)};
  const std::string stop = whole.substr(17, 3);
  const std::string cut = whole.substr(0, whole.find(stop));
  ask.sampling.stop = {"not in it", stop};
  const auto heard = driver.Run(ask);
  EXPECT_EQ(heard->choice().text, cut);
  EXPECT_EQ(heard->choice().finish->reason, wire::FinishReason::kStop);
  EXPECT_EQ(heard->choice().finish->stop_string, stop);
  EXPECT_EQ(heard->usage.completion_tokens, static_cast<int32_t>(cut.size() + stop.size()));
  ask.sampling.include_stop_str_in_output = true;
  EXPECT_EQ(driver.Run(ask)->choice().text, cut + stop);
}

TEST(Answer, StopsAtTokensAndNotBeforeMinTokens) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(9), .sampling = Drawn(20, 5)};
  ask.sampling.stop_token_ids = {65};
  ask.sampling.logit_bias = {{65, 100.0f}};
  const auto at_once = driver.Run(ask);
  EXPECT_EQ(at_once->usage.completion_tokens, 1);
  EXPECT_EQ(at_once->choice().finish->stop_token, 65);
  EXPECT_EQ(at_once->choice().text, "");
  ask.sampling.min_tokens = 6;
  const auto later = driver.Run(ask);
  EXPECT_EQ(later->usage.completion_tokens, 7);
  EXPECT_EQ(std::count(later->choice().tokens.begin(), later->choice().tokens.end(), 65), 1);
}

TEST(Answer, ShowsAStopTokenAsAnyOtherTokenIsShown) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(9), .sampling = Drawn(3, 5)};
  ask.sampling.include_stop_str_in_output = true;
  ask.sampling.stop_token_ids = {65};
  ask.sampling.logit_bias = {{65, 100.0f}};
  EXPECT_EQ(driver.Run(ask)->choice().text, "A");
  constexpr int32_t kHalfCharacter = 0xC3;
  ask.sampling.stop_token_ids = {kHalfCharacter};
  ask.sampling.logit_bias = {{kHalfCharacter, 100.0f}};
  EXPECT_EQ(driver.Run(ask)->choice().text, kUtf8Replacement);
  // The model's own end is no other: shown where special tokens are.
  const auto end = static_cast<int32_t>(tiny::ByteLevelVocabulary("gpt-2").eos);
  ask.sampling.stop_token_ids = {};
  ask.sampling.ignore_eos = false;
  ask.sampling.logit_bias = {{end, 100.0f}};
  EXPECT_EQ(driver.Run(ask)->choice().text, "");
  ask.sampling.skip_special_tokens = false;
  EXPECT_EQ(driver.Run(ask)->choice().text, "<|im_end|>");
}

TEST(Answer, LetsTheAnswerEndACharacterThatAnEchoedPromptBegins) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(3), .sampling = Greedy(2), .echo = true, .text = "so \xF0\x9F\x98"};
  ask.sampling.logit_bias = {{0x80, 100.0f}};
  const auto ended = driver.Run(ask);
  EXPECT_EQ(ended->choice().echo->text, "so ");
  EXPECT_EQ(ended->choice().text, "\xF0\x9F\x98\x80" + std::string(kUtf8Replacement));
  ask.sampling.logit_bias = {{'A', 100.0f}};
  EXPECT_EQ(driver.Run(ask)->choice().text, std::string(kUtf8Replacement) + "AA");
  ask.sampling = Greedy(0);
  EXPECT_EQ(driver.Run(ask)->choice().echo->text, "so " + std::string(kUtf8Replacement));
}

}  // namespace
}  // namespace fak::engine

#include <bit>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/native_driver.h"
#include "engine/test_support.h"

// An answer that another engine began goes on here with the same bits.
namespace fak::engine {
namespace {

using ::testing::HasSubstr;

// The deltas of an answer, one by one.
class Deltas final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    if (auto* delta = std::get_if<wire::TextDelta>(&event)) {
      list.push_back(std::move(*delta));
    }
    heard.OnEvent(std::move(event));
  }
  Heard heard;
  std::vector<wire::TextDelta> list;
};

struct Said {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> logprobs;

  void Add(const wire::TextDelta& delta) {
    text += delta.text;
    tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
    for (const wire::TokenLogprobs& one : delta.logprobs) {
      logprobs.push_back(static_cast<uint32_t>(one.chosen.token));
      logprobs.push_back(std::bit_cast<uint32_t>(one.chosen.logprob));
      for (const wire::TokenLogprobs::Entry& top : one.top) {
        logprobs.push_back(std::bit_cast<uint32_t>(top.logprob));
      }
    }
  }
};

Ask Continued(Ask ask, std::vector<int32_t> said) {
  ask.said = std::move(said);
  return ask;
}

// After each of its deltas the answer goes on elsewhere, as if nothing had been.
void ExpectGoesOn(const Ask& ask, wire::FinishReason reason) {
  TinyDriver driver;
  auto whole = std::make_shared<Deltas>();
  ASSERT_TRUE(driver->Admit(ask.Prepared(), whole));
  driver.Finish(whole->heard);
  ASSERT_FALSE(whole->heard.error) << whole->heard.error->detail;
  ASSERT_GT(whole->list.size(), 3u);
  ASSERT_EQ(whole->heard.choice().finish->reason, reason);
  Said all;
  for (const wire::TextDelta& delta : whole->list) {
    all.Add(delta);
  }
  for (const bool cached : {false, true}) {
    Said so_far;
    for (const wire::TextDelta& delta : whole->list) {
      so_far.Add(delta);
      TinyDriver another;
      TinyDriver& where = cached ? driver : another;
      auto rest = std::make_shared<Deltas>();
      const Status admitted = where->Admit(Continued(ask, so_far.tokens).Prepared(), rest);
      ASSERT_TRUE(admitted) << admitted.error().detail;
      where.Finish(rest->heard);
      ASSERT_TRUE(rest->heard.done);
      ASSERT_TRUE(rest->heard.started);
      EXPECT_EQ(rest->heard.started->said, so_far.text);
      EXPECT_EQ(rest->heard.started->said_tokens, static_cast<int32_t>(so_far.tokens.size()));
      Said joined = so_far;
      for (const wire::TextDelta& each : rest->list) {
        joined.Add(each);
      }
      EXPECT_EQ(joined.text, all.text) << "after " << so_far.tokens.size();
      EXPECT_EQ(joined.tokens, all.tokens) << "after " << so_far.tokens.size();
      EXPECT_EQ(joined.logprobs, all.logprobs) << "after " << so_far.tokens.size();
      const Heard::Choice& choice = rest->heard.choice();
      ASSERT_TRUE(choice.finish);
      EXPECT_EQ(choice.finish->reason, reason);
      EXPECT_EQ(choice.finish->stop_string, whole->heard.choice().finish->stop_string);
      EXPECT_FALSE(choice.echo);
      EXPECT_EQ(rest->heard.usage.completion_tokens, whole->heard.usage.completion_tokens);
      EXPECT_EQ(rest->heard.usage.prompt_tokens, whole->heard.usage.prompt_tokens);
      EXPECT_LE(rest->heard.usage.cached_tokens, rest->heard.usage.prompt_tokens);
    }
  }
}

TEST(ContinueAnswer, GoesOnGreedily) {
  Ask ask{.prompt = Tokens(50), .sampling = Greedy(20), .return_token_ids = true};
  ask.sampling.logprobs = 3;
  ExpectGoesOn(ask, wire::FinishReason::kLength);
}

TEST(ContinueAnswer, DrawsTheSameAndRemembersItsPenalties) {
  Ask ask{.prompt = Tokens(50), .sampling = Drawn(24, 7), .return_token_ids = true};
  ask.sampling.logprobs = 3;
  ask.sampling.presence_penalty = 0.5f;
  ask.sampling.frequency_penalty = 0.7f;
  ask.sampling.repetition_penalty = 1.2f;
  ask.sampling.min_tokens = 12;
  ExpectGoesOn(ask, wire::FinishReason::kLength);
}

// A stop string of which a part is held back at every place, and which begins before the seam.
TEST(ContinueAnswer, FindsAStopStringThatBeganBefore) {
  Ask ask{.prompt = Tokens(50), .sampling = Drawn(60, 3), .return_token_ids = true};
  TinyDriver driver;
  const auto whole = driver.Run(ask);
  const std::string& text = whole->choice().text;
  ASSERT_GT(text.size(), 40u);
  for (size_t at = 24; at < 32; ++at) {
    const std::string stop = text.substr(at, 6);
    if (text.find(stop) == at && stop.find("\xEF\xBF\xBD") == std::string::npos) {
      ask.sampling.stop = {stop, text.substr(at, 3) + "never"};
      ExpectGoesOn(ask, wire::FinishReason::kStop);
      return;
    }
  }
  FAIL() << "no stop string in " << text;
}

TEST(ContinueAnswer, RefusesWhatCantBeTheAnswerSoFar) {
  const Ask ask{.prompt = Tokens(50), .sampling = Greedy(4)};
  TinyDriver driver;
  const auto refusal = [&](const Ask& asked) {
    const Status admitted = driver->Admit(asked.Prepared(), std::make_shared<Heard>());
    EXPECT_FALSE(admitted);
    return admitted ? Error() : admitted.error();
  };
  EXPECT_THAT(refusal(Continued(ask, {1, 2, 3, 4, 5})).detail,
              HasSubstr("ends after 4 of its 5 tokens"));
  EXPECT_THAT(refusal(Continued(ask, {1 << 20})).detail, HasSubstr("outside the vocabulary"));
  EXPECT_THAT(refusal(Continued(ask, Tokens(100'000))).detail, HasSubstr("context"));
  EXPECT_EQ(refusal(Continued(ask, {1 << 20})).field, "continue_answer.token_ids");
  Ask two = Continued(ask, {1});
  two.n = 2;
  EXPECT_EQ(refusal(two).field, "continue_answer");

  const auto prepared = Continued(ask, {1}).Prepared();
  auto other = std::make_shared<driver::Prepared>(*prepared);
  auto turn = std::make_shared<wire::Turn>(*prepared->turn);
  turn->answer_so_far->artifact = "another";
  other->turn = turn;
  const Status admitted = driver->Admit(other, std::make_shared<Heard>());
  ASSERT_FALSE(admitted);
  EXPECT_EQ(admitted.error().field, "continue_answer.artifact");
}

TEST(ContinueAnswer, EnginesOfOneModelAndTemplateAreAlike) {
  EngineOptions options = TinyOptions();
  const std::string artifact = LoadTiny(options).artifact;
  EXPECT_EQ(artifact.size(), 32u);
  EXPECT_EQ(LoadTiny(options, {.threads = 1}).artifact, artifact);
  options.chat_template_source = "{{ messages }}";
  EXPECT_NE(LoadTiny(options).artifact, artifact);
  options = TinyOptions();
  options.kv_cache_dtype = tensor::KvType::kBf16;
  EXPECT_NE(LoadTiny(options).artifact, artifact);
}

}  // namespace
}  // namespace fak::engine

#include "engine/native_driver.h"

#include <algorithm>
#include <bit>
#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_support.h"
#include "kv/unit_keys.h"

namespace fak::engine {
namespace {

using ::testing::HasSubstr;

std::vector<uint32_t> BitsOf(const std::vector<wire::TokenLogprobs>& logprobs) {
  std::vector<uint32_t> bits;
  for (const wire::TokenLogprobs& one : logprobs) {
    bits.push_back(static_cast<uint32_t>(one.chosen.token));
    bits.push_back(std::bit_cast<uint32_t>(one.chosen.logprob));
    bits.push_back(one.chosen.rank);
    for (const wire::TokenLogprobs::Entry& top : one.top) {
      bits.push_back(static_cast<uint32_t>(top.token));
      bits.push_back(std::bit_cast<uint32_t>(top.logprob));
    }
  }
  return bits;
}

void ExpectSame(const Heard::Choice& a, const Heard::Choice& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(BitsOf(a.logprobs), BitsOf(b.logprobs));
}

TEST(NativeDriver, AnswersAlikeAloneAndAmongFifteenOthers) {
  Ask ask{.prompt = Tokens(50), .sampling = Drawn(24, 7)};
  ask.sampling.logprobs = 5;
  TinyDriver alone;
  const auto expected = alone.Run(ask);
  ASSERT_EQ(expected->choice().logprobs.size(), 24u);

  TinyDriver crowd;
  std::vector<std::shared_ptr<Heard>> others;
  for (uint32_t i = 0; i < 15; ++i) {
    if (i == 8) {
      others.push_back(crowd.Admit(ask));
    }
    others.push_back(crowd.Admit({.id = "other-" + std::to_string(i),
                                  .prompt = Tokens(5 + 9 * i, 100 + i),
                                  .sampling = Drawn(3 + 4 * static_cast<int32_t>(i), i)}));
    crowd->Step();
  }
  for (const auto& other : others) {
    crowd.Finish(*other);
  }
  ExpectSame(others[8]->choice(), expected->choice());
}

TEST(NativeDriver, CancelFreesItsBlocksWithinAStep) {
  TinyDriver driver;
  const auto kept = driver.Admit({.id = "kept", .prompt = Tokens(40, 2), .sampling = Greedy(500)});
  const auto gone = driver.Admit({.id = "gone", .prompt = Tokens(600), .sampling = Greedy(500)});
  for (int i = 0; i < 4; ++i) {
    driver->Step();
  }
  const uint64_t before = driver.free_blocks();
  driver->Cancel("gone");
  driver->Cancel("nobody");
  driver->Step();
  ASSERT_TRUE(gone->error);
  EXPECT_EQ(gone->error->code, Code::kCancelled);
  EXPECT_GE(driver.free_blocks(), before + 600 / 16);
  EXPECT_EQ(driver->Load().running, 1);
  driver->Cancel("kept");
  driver->Step();
  EXPECT_EQ(driver.free_blocks(), driver->pool().total());
}

TEST(NativeDriver, TakesAnIdAgainRightAfterItsCancel) {
  TinyDriver driver;
  const auto first = driver.Admit({.prompt = Tokens(20), .sampling = Greedy(50)});
  driver->Step();
  driver->Cancel("target");
  const auto second = driver.Run({.prompt = Tokens(20), .sampling = Greedy(2)});
  EXPECT_TRUE(first->error);
  EXPECT_TRUE(second->done);
}

TEST(NativeDriver, RefusesAnIdThatIsInUse) {
  TinyDriver driver;
  const auto first = driver.Admit({.prompt = Tokens(20), .sampling = Greedy(5)});
  const auto second = driver.Admit({.prompt = Tokens(20), .sampling = Greedy(5)});
  driver.Finish(*second);
  driver.Finish(*first);
  ASSERT_TRUE(second->error);
  EXPECT_EQ(second->error->code, Code::kAlreadyExists);
  EXPECT_TRUE(first->done);
}

TEST(NativeDriver, LowersMaxTokensToTheContext) {
  EngineOptions options = TinyOptions();
  options.max_model_len = 64;
  TinyDriver driver(options);
  const auto heard = driver.Run({.prompt = Tokens(50), .sampling = Greedy(1000)});
  EXPECT_EQ(heard->usage.completion_tokens, 14);
  EXPECT_EQ(heard->choice().finish->reason, wire::FinishReason::kLength);
}

TEST(NativeDriver, RefusesAPromptThatCanNotFitWithTheNumbers) {
  EngineOptions options = TinyOptions();
  options.max_model_len = 64;
  TinyDriver driver(options);
  const auto heard = std::make_shared<Heard>();
  const Status admitted =
      driver->Admit(Ask{.prompt = Tokens(64), .sampling = Greedy(1)}.Prepared(), heard);
  ASSERT_FALSE(admitted);
  EXPECT_EQ(admitted.error().code, Code::kContextTooLong);
  EXPECT_EQ(admitted.error().field, "prompt");
  EXPECT_EQ(admitted.error().detail,
            "This model's maximum context length is 64 tokens. However, your prompt has 64 tokens. "
            "Please reduce the length of the prompt");
  EXPECT_TRUE(driver->Admit(Ask{.prompt = Tokens(63), .sampling = Greedy(1)}.Prepared(), heard));
}

TEST(NativeDriver, ChoicesDrawEachForItself) {
  const Ask one{.prompt = Tokens(30), .sampling = Drawn(16, 9)};
  Ask three = one;
  three.n = 3;
  TinyDriver driver;
  const auto first = driver.Run(one);
  const auto all = driver.Run(three);
  ASSERT_EQ(all->choices.size(), 3u);
  ExpectSame(all->choice(0), first->choice());
  EXPECT_NE(all->choice(1).tokens, all->choice(0).tokens);
  EXPECT_NE(all->choice(2).tokens, all->choice(1).tokens);
  EXPECT_EQ(all->usage.prompt_tokens, 30);
  EXPECT_EQ(all->usage.completion_tokens, 48);

  EngineOptions uncached = TinyOptions();
  uncached.scheduler.enable_prefix_caching = false;
  TinyDriver other(uncached);
  other.Admit({.id = "other", .prompt = Tokens(70, 5), .sampling = Greedy(30)});
  const auto again = other.Run(three);
  for (int32_t i = 0; i < 3; ++i) {
    ExpectSame(again->choice(i), all->choice(i));
  }
  Ask greedy = three;
  greedy.sampling = Greedy(16);
  const auto alike = driver.Run(greedy);
  ExpectSame(alike->choice(1), alike->choice(0));
  ExpectSame(alike->choice(2), alike->choice(0));
}

// What a prompt's tokens score is what they were drawn with.
TEST(NativeDriver, ScoresAPromptWithTheBitsOfItsGeneration) {
  Ask ask{.prompt = Tokens(40), .sampling = Drawn(12, 3)};
  ask.sampling.logprobs = 0;
  TinyDriver driver;
  const auto drawn = driver.Run(ask);
  Ask scored{.prompt = ask.prompt, .sampling = Greedy(0), .echo = true};
  scored.prompt.insert(scored.prompt.end(), drawn->choice().tokens.begin(),
                       drawn->choice().tokens.end());
  scored.sampling.prompt_logprobs = 0;
  for (const uint32_t rows : {32u, 5u}) {  // logit rows of a step: whole, and in pieces
    EngineOptions options = TinyOptions();
    options.scheduler.max_num_seqs = rows;
    TinyDriver scorer(options);
    const auto heard = scorer.Run(scored);
    EXPECT_EQ(heard->usage.completion_tokens, 0);
    EXPECT_EQ(heard->choice().tokens.size(), 0u);
    EXPECT_EQ(heard->choice().finish->reason, wire::FinishReason::kLength);
    ASSERT_TRUE(heard->choice().echo);
    const wire::PromptEcho& echo = *heard->choice().echo;
    EXPECT_EQ(echo.text, "the prompt's text");
    EXPECT_EQ(echo.tokens, scored.prompt);
    ASSERT_EQ(echo.logprobs.size(), 52u);
    EXPECT_FALSE(echo.logprobs.front().scored);
    const std::vector<wire::TokenLogprobs> tail(echo.logprobs.begin() + 40, echo.logprobs.end());
    EXPECT_EQ(BitsOf(tail), BitsOf(drawn->choice().logprobs));
  }
}

TEST(NativeDriver, SaysThePromptsTokensWhereTheyAreToBeReturned) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(3), .sampling = Greedy(1)};
  EXPECT_FALSE(driver.Run(ask)->choice().echo);
  ask.return_token_ids = true;
  const auto heard = driver.Run(ask);
  ASSERT_TRUE(heard->choice().echo);
  EXPECT_EQ(heard->choice().echo->tokens, ask.prompt);
}

TEST(NativeDriver, EchoesAPromptOfOneToken) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(1), .sampling = Greedy(1), .echo = true};
  ask.sampling.prompt_logprobs = 0;
  const auto heard = driver.Run(ask);
  ASSERT_EQ(heard->choice().echo->logprobs.size(), 1u);
  const wire::TokenLogprobs& first = heard->choice().echo->logprobs.front();
  EXPECT_FALSE(first.scored);
  EXPECT_EQ(first.chosen.token, ask.prompt.front());
  EXPECT_EQ(first.chosen.bytes.size(), 1u);
}

TEST(NativeDriver, ARequestPastItsDeadlineEndsWaitingOrRunning) {
  EngineOptions options = TinyOptions();
  options.scheduler.max_num_seqs = 1;
  TinyDriver driver(options);
  const int64_t start_ns = driver.clock().NowNs();
  const auto first = driver.Admit({.id = "first",
                                   .prompt = Tokens(20),
                                   .sampling = Greedy(1000),
                                   .deadline_ns = start_ns + 20 * kNsPerMs});
  const auto waiting = driver.Admit({.id = "waiting",
                                     .prompt = Tokens(20, 2),
                                     .sampling = Greedy(4),
                                     .deadline_ns = start_ns + 10 * kNsPerMs});
  const auto patient =
      driver.Admit({.id = "patient", .prompt = Tokens(20, 3), .sampling = Greedy(4)});
  driver->Step();
  driver->Step();
  EXPECT_FALSE(waiting->ended());
  driver.clock().AdvanceNs(10 * kNsPerMs);
  driver->Step();
  ASSERT_TRUE(waiting->error);
  EXPECT_EQ(waiting->error->code, Code::kDeadlineExceeded);
  EXPECT_THAT(waiting->error->detail, HasSubstr("--request-timeout"));
  EXPECT_FALSE(first->ended());
  driver.clock().AdvanceNs(10 * kNsPerMs);
  driver->Step();
  ASSERT_TRUE(first->error);
  EXPECT_EQ(first->error->code, Code::kDeadlineExceeded);
  EXPECT_GT(first->choice().tokens.size(), 0u);
  driver.Finish(*patient);
  EXPECT_TRUE(patient->done);
  EXPECT_EQ(driver.free_blocks(), 256u);
}

// Eight blocks for two sequences that want ten.
TEST(NativeDriver, PreemptionResumesWithTheSameBits) {
  for (const bool scores : {false, true}) {
    Ask ask{.prompt = Tokens(40), .sampling = Drawn(30, 4)};
    ask.sampling.logprobs = 2;
    ask.sampling.prompt_logprobs = scores ? 0 : -1;
    TinyDriver alone;
    const auto expected = alone.Run(ask);
    TinyDriver tight(TinyOptions(8));
    const auto first =
        tight.Admit({.id = "first", .prompt = Tokens(40, 2), .sampling = Greedy(40)});
    const auto heard = tight.Admit(ask);
    tight.Finish(*heard);
    EXPECT_TRUE(first->done);
    EXPECT_GT(tight->preemptions(), 0u);
    ExpectSame(heard->choice(), expected->choice());
    EXPECT_EQ(heard->usage.completion_tokens, 30);
    if (scores) {
      EXPECT_EQ(heard->choice().echo->logprobs.size(), 40u);
    }
    EXPECT_EQ(tight.free_blocks(), 8u);
  }
}

// The prompt of the target is scored a row a step while the first one grows: it loses its blocks
// before its prompt is done.
TEST(NativeDriver, PreemptionInAScoredPromptScoresEachTokenOnce) {
  Ask ask{.prompt = Tokens(60), .sampling = Greedy(4)};
  ask.sampling.prompt_logprobs = 1;
  TinyDriver alone;
  const auto expected = alone.Run(ask);
  EngineOptions options = TinyOptions(8);
  options.scheduler.max_num_seqs = 2;
  TinyDriver tight(options);
  const auto first = tight.Admit({.id = "first", .prompt = Tokens(40, 2), .sampling = Greedy(60)});
  tight->Step();
  const auto heard = tight.Admit(ask);
  tight.Finish(*heard);
  EXPECT_TRUE(first->done);
  EXPECT_GT(tight->preemptions(), 0u);
  const auto& scored = heard->choice().echo->logprobs;
  ASSERT_EQ(scored.size(), 60u);
  for (size_t i = 1; i < scored.size(); ++i) {
    EXPECT_EQ(BitsOf({scored[i]}), BitsOf({expected->choice().echo->logprobs[i]}));
  }
}

TEST(NativeDriver, CountsCachedTokensToTheToken) {
  TinyDriver driver;
  const Ask ask{.prompt = Tokens(45), .sampling = Greedy(20)};
  const auto cold = driver.Run(ask);
  EXPECT_EQ(cold->usage.cached_tokens, 0);
  EXPECT_EQ(cold->started->cached_tokens, 0);
  const auto warm = driver.Run(ask);
  EXPECT_EQ(warm->usage.cached_tokens, 44);  // all but the one whose logits are needed
  EXPECT_EQ(warm->started->cached_tokens, 44);
  ExpectSame(warm->choice(), cold->choice());
  // The next turn of a conversation: what was generated is cached too, but for the last token.
  Ask next = ask;
  next.prompt.insert(next.prompt.end(), cold->choice().tokens.begin(), cold->choice().tokens.end());
  next.prompt.insert(next.prompt.end(), {1, 2, 3});
  EXPECT_EQ(driver.Run(next)->usage.cached_tokens, 45 + 19);
  Ask other = ask;
  other.prompt[20] ^= 1;
  EXPECT_EQ(driver.Run(other)->usage.cached_tokens, 20);
}

TEST(NativeDriver, NeverHitsAcrossSalts) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(45), .sampling = Greedy(2), .salt = "alice"};
  driver.Run(ask);
  ask.salt = "bob";
  EXPECT_EQ(driver.Run(ask)->usage.cached_tokens, 0);
  ask.salt = "alice";
  EXPECT_EQ(driver.Run(ask)->usage.cached_tokens, 44);
}

TEST(NativeDriver, EvictsExactlyThePathItIsTold) {
  TinyDriver driver;
  const Ask ask{.prompt = Tokens(45), .sampling = Greedy(2)};
  driver.Run(ask);
  std::optional<driver::EvictReport> report;
  const std::vector<int32_t> path(ask.prompt.begin(), ask.prompt.begin() + 20);
  driver->Evict(
      {.scope = driver::EvictScope::kPrefix, .tokens = path, .cache_salt = {}},
      [&report](std::vector<driver::EvictOutcome> done) { report = done.at(0).report.value(); });
  EXPECT_EQ(driver.Run(ask)->usage.cached_tokens, 16);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->guarantee, driver::EvictGuarantee::kExact);
  EXPECT_EQ(report->blocks, 2u);
  EXPECT_EQ(report->tokens_left, 16u);
  EXPECT_THAT(report->call, HasSubstr("16 of its 20 tokens stay cached"));
}

TEST(NativeDriver, EvictsOneTenantsSaltsAndNoOthers) {
  TinyDriver driver;
  const auto cached = [&driver](const std::string& salt) {
    return driver.Run({.prompt = Tokens(45), .sampling = Greedy(2), .salt = salt})
        ->usage.cached_tokens;
  };
  const auto evict = [&driver](driver::EvictScope scope, const std::string& salt) {
    std::optional<driver::EvictReport> report;
    driver->Evict(
        {.scope = scope, .tokens = {}, .cache_salt = salt},
        [&report](std::vector<driver::EvictOutcome> done) { report = done.at(0).report.value(); });
    driver->Step();
    EXPECT_EQ(report->guarantee, driver::EvictGuarantee::kExact);
    return report->blocks.value();
  };
  const std::vector<std::string> salts = {"5:alice", "5:alices", "6:alices", "3:bob", ""};
  const auto all_cached = [&] {
    std::vector<int32_t> all;
    for (const std::string& salt : salts) {
      all.push_back(cached(salt));
    }
    return all;
  };
  all_cached();
  // One that runs meanwhile must not bring its tenant's blocks back, nor lose another's.
  const auto alices = driver.Admit(
      {.id = "alices", .prompt = Tokens(45, 2), .sampling = Greedy(4), .salt = "5:alicex"});
  const auto bobs = driver.Admit(
      {.id = "bobs", .prompt = Tokens(45, 2), .sampling = Greedy(4), .salt = "3:bobx"});
  driver->Step();
  EXPECT_EQ(evict(driver::EvictScope::kTenant, "5:nobody"), 0u);
  EXPECT_GT(evict(driver::EvictScope::kTenant, "5:alice"), 0u);
  driver.Finish(*alices);
  driver.Finish(*bobs);
  EXPECT_EQ(all_cached(), (std::vector<int32_t>{0, 0, 44, 44, 44}));
  const auto again = [&](const std::string& salt) {
    return driver.Run({.prompt = Tokens(45, 2), .sampling = Greedy(2), .salt = salt})
        ->usage.cached_tokens;
  };
  EXPECT_EQ(again("5:alicex"), 0);
  EXPECT_EQ(again("3:bobx"), 44);
  evict(driver::EvictScope::kSalt, "5:alice");
  EXPECT_EQ(all_cached(), (std::vector<int32_t>{0, 44, 44, 44, 44}));
  evict(driver::EvictScope::kAll, "");
  EXPECT_EQ(all_cached(), (std::vector<int32_t>(5, 0)));
}

// Named as the gateway names a prompt's units, so that what is told of a cache can be compared with
// what a prompt needs.
TEST(NativeDriver, TellsWhatItsCacheHoldsByTheKeysOfUnits) {
  TinyDriver driver;
  std::vector<wire::KvEventBatch> told;
  driver->Subscribe([&told](const wire::KvEventBatch& batch) { told.push_back(batch); });
  const Ask ask{.prompt = Tokens(45), .sampling = Greedy(6), .salt = "alice"};
  driver.Run(ask);
  std::vector<uint64_t> stored;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].sequence, i);
    EXPECT_EQ(told[i].generation, 0u);
    EXPECT_GT(told[i].time_s, 1e9);
    for (const wire::KvEvent& event : told[i].events) {
      ASSERT_EQ(event.kind, wire::KvEvent::Kind::kStored);
      EXPECT_EQ(event.block_size, 16);
      EXPECT_EQ(event.cache_salt, stored.empty() ? "alice" : "");
      EXPECT_EQ(event.parent_hash, stored.empty() ? std::nullopt : std::optional(stored.back()));
      stored.insert(stored.end(), event.block_hashes.begin(), event.block_hashes.end());
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
    }
  }
  // Two blocks of the prompt, and one that the answer filled.
  ASSERT_EQ(tokens.size(), 48u);
  EXPECT_TRUE(std::equal(ask.prompt.begin(), ask.prompt.end(), tokens.begin()));
  EXPECT_EQ(stored, kv::UnitKeys("alice", tokens));

  told.clear();
  driver.Run(ask);
  EXPECT_TRUE(told.empty()) << "nothing new";
  driver->Evict({.scope = driver::EvictScope::kPrefix,
                 .tokens = std::vector<int32_t>(ask.prompt.begin(), ask.prompt.begin() + 20),
                 .cache_salt = "alice"},
                [](const std::vector<driver::EvictOutcome>&) {});
  driver->Step();
  ASSERT_EQ(told.size(), 1u);
  ASSERT_EQ(told[0].events.size(), 1u);
  EXPECT_EQ(told[0].events[0].kind, wire::KvEvent::Kind::kRemoved);
  EXPECT_EQ(told[0].events[0].block_hashes, (std::vector<uint64_t>{stored[2], stored[1]}));
  driver->Evict({.scope = driver::EvictScope::kAll, .tokens = {}, .cache_salt = {}},
                [](const std::vector<driver::EvictOutcome>&) {});
  driver->Step();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1].events[0].kind, wire::KvEvent::Kind::kCleared);
}

TEST(NativeDriver, FailsAloneWhenItsKvIsNotFinite) {
  TinyDriver driver;
  const auto healthy =
      driver.Admit({.id = "healthy", .prompt = Tokens(20, 2), .sampling = Greedy(20)});
  const auto ill = driver.Admit({.id = "ill", .prompt = Tokens(20), .sampling = Greedy(20)});
  driver->Step();
  const Sequence& sequence = driver->Find("ill")->choices.front().sequence;
  tensor::Backend& backend = *driver->engine().backend;
  const std::vector<std::byte> rows(size_t{2} * 64 * 2, std::byte{0xff});
  backend.WriteKv(sequence.blocks.front(), 1, tensor::KvPart::kKey, 5, 1, rows);
  driver->Step();
  ASSERT_TRUE(ill->error);
  EXPECT_EQ(ill->error->code, Code::kInternal);
  EXPECT_THAT(ill->error->detail, HasSubstr("not finite"));
  driver.Finish(*healthy);
  EXPECT_TRUE(healthy->done);
}

// Fails steps from some moment on, as a device does that was lost.
class LostDevice final : public tensor::Executable {
 public:
  LostDevice(std::unique_ptr<tensor::Executable> real, const bool& lost)
      : real_(std::move(real)), lost_(lost) {}
  Status Submit(const tensor::StepInput& step) override { return real_->Submit(step); }
  Result<tensor::StepOutput> Wait() override {
    Result<tensor::StepOutput> output = real_->Wait();
    if (lost_) {
      return Fail(Code::kInternal, "the device was lost");
    }
    return output;
  }
  void ReadLogits(uint32_t i, std::span<float> out) const override { real_->ReadLogits(i, out); }
  std::vector<std::string> Kernels() const override { return real_->Kernels(); }

 private:
  const std::unique_ptr<tensor::Executable> real_;
  const bool& lost_;
};

TEST(NativeDriver, AFailedStepEndsEveryRequestWithItsError) {
  EngineOptions options = TinyOptions();
  options.scheduler.max_num_seqs = 2;  // the third waits
  TinyDriver driver(options);
  bool lost = false;
  std::unique_ptr<tensor::Executable>& executable = driver->engine().executable;
  executable = std::make_unique<LostDevice>(std::move(executable), lost);
  std::vector<std::shared_ptr<Heard>> all;
  for (uint32_t i = 0; i < 3; ++i) {
    all.push_back(driver.Admit(
        {.id = std::to_string(i), .prompt = Tokens(20, i), .sampling = Greedy(50), .n = 2}));
  }
  driver->Step();
  driver->Step();
  EXPECT_FALSE(all[0]->choice().tokens.empty());
  lost = true;
  for (const std::shared_ptr<Heard>& heard : all) {
    driver.Finish(*heard);
    ASSERT_TRUE(heard->error);
    EXPECT_EQ(heard->error->code, Code::kInternal);
    EXPECT_EQ(heard->error->detail, "the device was lost");
  }
  EXPECT_EQ(driver.free_blocks(), 256u);
  lost = false;
  EXPECT_TRUE(driver.Run({.prompt = Tokens(20), .sampling = Greedy(5)})->done);
}

TEST(NativeDriver, SaysWhenEveryTokenIsBanned) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(5), .sampling = Greedy(3)};
  for (int32_t token = 0; token < 303; ++token) {
    ask.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  const auto heard = driver.Run(ask);
  ASSERT_TRUE(heard->error);
  EXPECT_EQ(heard->error->code, Code::kInvalidArgument);
  EXPECT_EQ(heard->error->field, "logit_bias");
}

TEST(NativeDriver, DrawsASeedAndSaysIt) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(5), .sampling = Drawn(10, 0)};
  ask.sampling.seed.reset();
  const auto drawn = driver.Run(ask);
  ask.sampling.seed = drawn->started->seed.value();
  const auto again = driver.Run(ask);
  ExpectSame(again->choice(), drawn->choice());
  ask.sampling.seed.reset();
  EXPECT_NE(driver.Run(ask)->started->seed, drawn->started->seed);
}

TEST(NativeDriver, DrawsSeedsThatADoubleHolds) {
  TinyDriver driver;
  Ask ask{.prompt = Tokens(5), .sampling = Drawn(1, 0)};
  ask.sampling.seed.reset();
  for (int i = 0; i < 4; ++i) {
    EXPECT_LT(driver.Run(ask)->started->seed.value(), uint64_t{1} << 53);
  }
}

TEST(NativeDriver, DrainLetsWhatIsOpenEnd) {
  TinyDriver driver;
  const auto heard = driver.Admit({.prompt = Tokens(5), .sampling = Greedy(6)});
  driver->Step();
  int drained = 0;
  driver->Drain([&drained] { ++drained; });
  EXPECT_FALSE(driver->Load().ready);
  const auto late = std::make_shared<Heard>();
  const Status refused =
      driver->Admit(Ask{.id = "late", .prompt = Tokens(5), .sampling = Greedy(1)}.Prepared(), late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(drained, 0);
  driver.Finish(*heard);
  EXPECT_TRUE(heard->done);
  EXPECT_EQ(drained, 1);
  driver->Drain([&drained] { ++drained; });
  EXPECT_EQ(drained, 2);
}

TEST(NativeDriver, StopEndsEverythingWithAnError) {
  TinyDriver driver;
  const auto running = driver.Admit({.id = "a", .prompt = Tokens(5), .sampling = Greedy(60)});
  driver->Step();
  const auto queued = driver.Admit({.id = "b", .prompt = Tokens(5), .sampling = Greedy(60)});
  driver->Stop();
  for (const auto& heard : {running, queued}) {
    ASSERT_TRUE(heard->error);
    EXPECT_EQ(heard->error->code, Code::kUnavailable);
  }
  EXPECT_EQ(driver->pool().free() + driver->pool().cached_only(), driver->pool().total());
  std::optional<Code> evicted;
  driver->Evict({}, [&evicted](std::vector<driver::EvictOutcome> done) {
    evicted = done.at(0).report.error().code;
  });
  EXPECT_EQ(evicted, Code::kUnavailable);
}

TEST(NativeDriver, RunsOnAThreadOfItsOwn) {
  // Tells when the request ended.
  class Waiter final : public driver::EventSink {
   public:
    void OnEvent(wire::Event&& event) noexcept override {
      if (std::holds_alternative<wire::Done>(event)) {
        done.set_value();
      }
    }
    std::promise<void> done;
  };
  TinyDriver driver;
  ASSERT_TRUE(driver->Start());
  ASSERT_TRUE(driver->Start());
  EXPECT_FALSE(driver->Step());
  const auto waiter = std::make_shared<Waiter>();
  ASSERT_TRUE(driver->Admit(Ask{.prompt = Tokens(30), .sampling = Greedy(10)}.Prepared(), waiter));
  waiter->done.get_future().wait();
  driver->Stop();
}

TEST(NativeDriver, BoundsTheSequencesInside) {
  FakeClock clock;
  FakeRandom random;
  NativeDriver driver(LoadTiny(TinyOptions()), {.served_names = {}, .sequences_max = 3}, clock,
                      random, nullptr);
  const auto admit = [&](const std::string& id, int32_t n = 1) {
    return driver.Admit(
        Ask{.id = id, .prompt = Tokens(5), .sampling = Greedy(1), .n = n}.Prepared(),
        std::make_shared<Heard>());
  };
  EXPECT_EQ(admit("never", 4).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(admit("a", 2));
  EXPECT_EQ(admit("too many", 2).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(admit("b"));
  EXPECT_EQ(admit("c").error().code, Code::kResourceExhausted);
  while (driver.Step()) {
  }
  EXPECT_TRUE(admit("c", 3));
}

}  // namespace
}  // namespace fak::engine

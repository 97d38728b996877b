#include "perf/sim_replica.h"

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using ::testing::ElementsAre;
using Keys = std::vector<uint64_t>;

TEST(SimCache, DropsTheLeastRecentlyUsedAndOfARequestItsEndFirst) {
  SimCache cache(4);
  const Keys a = {1, 2};
  const Keys b = {3, 4};
  Keys evicted;
  ASSERT_TRUE(cache.Hold(a, 0, evicted));
  cache.Release(a, 0);
  ASSERT_TRUE(cache.Hold(b, 0, evicted));
  cache.Release(b, 0);
  EXPECT_TRUE(evicted.empty());
  ASSERT_TRUE(cache.Hold(Keys{5}, 0, evicted));
  EXPECT_THAT(evicted, ElementsAre(2));
  EXPECT_EQ(cache.Match(a), 1u);
  EXPECT_EQ(cache.Match(b), 2u);
}

TEST(SimCache, NeverDropsWhatIsHeld) {
  SimCache cache(3);
  Keys evicted;
  ASSERT_TRUE(cache.Hold(Keys{1, 2}, 1, evicted));
  EXPECT_FALSE(cache.Hold(Keys{1, 3}, 0, evicted));
  EXPECT_EQ(cache.Match(Keys{1, 3}), 1u);
  cache.Release(Keys{1, 2}, 1);
  EXPECT_TRUE(cache.Hold(Keys{1, 3}, 1, evicted));
  EXPECT_THAT(evicted, ElementsAre(2));
}

TEST(SimCache, HoldsABlockForSeveral) {
  SimCache cache(2);
  Keys evicted;
  ASSERT_TRUE(cache.Hold(Keys{1}, 0, evicted));
  ASSERT_TRUE(cache.Hold(Keys{1}, 0, evicted));
  cache.Release(Keys{1}, 0);
  EXPECT_FALSE(cache.Hold(Keys{2, 3}, 0, evicted));
  cache.Release(Keys{1}, 0);
  EXPECT_TRUE(cache.Hold(Keys{2, 3}, 0, evicted));
}

TraceRequest Request(int64_t prompt, int64_t output, uint64_t first_key) {
  TraceRequest request{.prompt_tokens = prompt, .output_tokens = output, .keys = {}};
  request.keys.resize(static_cast<size_t>((prompt + kTraceBlockTokens - 1) / kTraceBlockTokens));
  std::iota(request.keys.begin(), request.keys.end(), first_key);
  return request;
}

constexpr SimEngine kEngine{.prefill_tokens_per_s = 1000,
                            .step_us = 10'000,
                            .sequence_us = 1000,
                            .step_tokens = 1024,
                            .sequences_max = 4,
                            .kv_blocks = 20};

// Runs until nothing is left; "request@ms" of each first token and each end.
std::vector<std::string> RunAll(SimReplica& replica) {
  std::vector<std::string> log;
  std::vector<SimReplica::Ended> ended;
  int64_t now_us = 0;
  while (const auto end_us = replica.Next(now_us)) {
    now_us = *end_us;
    ended.clear();
    replica.Finish(ended);
    for (const auto& part : ended) {
      log.push_back((part.whole ? "end " : "first ") + std::to_string(part.request) + "@" +
                    std::to_string(now_us / 1000));
    }
  }
  return log;
}

TEST(SimReplica, CutsPromptsIntoStepsAndBatchesWhatGenerates) {
  const std::vector<TraceRequest> requests = {Request(1024, 3, 100), Request(1024, 1, 200)};
  SimReplica replica(kEngine, requests);
  replica.Submit(0);
  replica.Submit(1);
  EXPECT_EQ(replica.backlog_tokens(), 2048);
  // The second's first step has 1023 tokens beside the first's generated one.
  EXPECT_THAT(RunAll(replica),
              ElementsAre("first 0@1024", "end 0@2059", "first 1@2059", "end 1@2059"))
      << "a step of one token is 10 ms at least";
  EXPECT_EQ(replica.computed_tokens(), 2048);
  EXPECT_EQ(replica.in_flight(), 0);
}

TEST(SimReplica, ComputesOnlyWhatItHasNot) {
  const std::vector<TraceRequest> requests = {Request(1024, 1, 100), Request(1024, 1, 100)};
  SimReplica replica(kEngine, requests);
  replica.Submit(0);
  RunAll(replica);
  EXPECT_EQ(replica.computed_tokens(), 1024);
  replica.Submit(1);
  RunAll(replica);
  EXPECT_EQ(replica.computed_tokens(), 1025);  // its last token at least
  const auto changes = replica.TakeChanges();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_TRUE(changes[0].stored);
  EXPECT_EQ(changes[0].first, 0u);
  EXPECT_EQ(changes[1].first, 2u);
}

TEST(SimReplica, WaitsForBlocks) {
  // 12 blocks each, of 20.
  const std::vector<TraceRequest> requests = {Request(6000, 2, 100), Request(6000, 1, 200)};
  SimReplica replica(kEngine, requests);
  replica.Submit(0);
  replica.Submit(1);
  const auto log = RunAll(replica);
  EXPECT_THAT(log, ElementsAre("first 0@6000", "end 0@6011", "first 1@12011", "end 1@12011"));
  const auto changes = replica.TakeChanges();
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_FALSE(changes[1].stored);
  EXPECT_EQ(changes[1].keys.size(), 4u);
}

TEST(SimReplica, MakesRoomForAPromptAtTheNextStep) {
  const std::vector<TraceRequest> requests = {Request(512, 100, 100), Request(100, 1, 200)};
  SimReplica replica(kEngine, requests);
  replica.Submit(0);
  std::vector<SimReplica::Ended> ended;
  const int64_t first_us = *replica.Next(0);
  replica.Finish(ended);
  const int64_t end_us = *replica.Next(first_us);
  EXPECT_EQ(end_us - first_us, 99 * 11'000);
  replica.Submit(1);
  EXPECT_EQ(replica.CutShort(first_us + 12'000), first_us + 22'000);
  EXPECT_EQ(replica.CutShort(first_us + 12'000), std::nullopt);
  replica.Finish(ended);
  EXPECT_EQ(replica.Next(first_us + 22'000), first_us + 22'000 + 101'000);
}

}  // namespace
}  // namespace fak::perf

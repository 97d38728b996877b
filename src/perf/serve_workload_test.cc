#include "perf/serve_workload.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace fak::perf {
namespace {

int64_t Words(const std::string& text) {
  return std::count(text.begin(), text.end(), ' ');
}

TEST(MakeSynthetic, IsFixedByItsSeed) {
  const SyntheticWorkload workload{.requests = 20, .range_ratio = 0.5, .rate = 3, .seed = 7};
  const auto one = MakeSynthetic(workload);
  const auto same = MakeSynthetic(workload);
  SyntheticWorkload other = workload;
  other.seed = 8;
  const auto different = MakeSynthetic(other);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].prompt, same[i].prompt);
    EXPECT_EQ(one[i].at_ns, same[i].at_ns);
    EXPECT_EQ(one[i].output_tokens, same[i].output_tokens);
    EXPECT_NE(one[i].prompt, different[i].prompt);
  }
}

TEST(MakeSynthetic, KeepsItsLengths) {
  for (const ServeRequest& request :
       MakeSynthetic({.requests = 50, .input_words = 30, .output_tokens = 9, .prefix_words = 12})) {
    EXPECT_EQ(Words(request.prompt), 42);
    EXPECT_EQ(request.output_tokens, 9u);
    EXPECT_EQ(request.at_ns, 0);
  }
  std::set<int64_t> lengths;
  for (const ServeRequest& request : MakeSynthetic(
           {.requests = 2000, .input_words = 10, .output_tokens = 1, .range_ratio = 0.2})) {
    lengths.insert(Words(request.prompt));
  }
  EXPECT_EQ(lengths, (std::set<int64_t>{8, 9, 10, 11, 12}));
}

TEST(MakeSynthetic, SharesSoManyPrefixes) {
  std::set<std::string> prefixes;
  const auto requests = MakeSynthetic(
      {.requests = 200, .input_words = 5, .prefix_words = 40, .prefixes = 3, .seed = 2});
  for (const ServeRequest& request : requests) {
    size_t end = 0;
    for (int word = 0; word <= 40; ++word) {
      end = request.prompt.find(' ', end + (word > 0 ? 1 : 0));
    }
    prefixes.insert(request.prompt.substr(0, end));
  }
  EXPECT_EQ(prefixes.size(), 3u);
}

// Mean and variance of the gaps, against the distribution's own, at five standard errors.
TEST(MakeSynthetic, ArrivesAtItsRateWithItsBurstiness) {
  for (const double shape : {0.25, 1.0, 4.0}) {
    constexpr uint32_t kCount = 20000;
    const auto requests = MakeSynthetic(
        {.requests = kCount, .input_words = 1, .rate = 50, .burstiness = shape, .seed = 3});
    double sum = 0;
    double squares = 0;
    for (size_t i = 1; i < requests.size(); ++i) {
      const double gap = static_cast<double>(requests[i].at_ns - requests[i - 1].at_ns) /
                         static_cast<double>(kNsPerSecond);
      EXPECT_GE(gap, 0);
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / (kCount - 1);
    const double variance = squares / (kCount - 1) - mean * mean;
    EXPECT_NEAR(mean, 0.02, 5 * 0.02 / std::sqrt(shape * kCount)) << shape;
    EXPECT_NEAR(variance * shape / (0.02 * 0.02), 1, 0.2) << shape;
  }
}

TEST(MakeFromTrace, SharesWhatTheTraceShares) {
  RouteTrace trace;
  trace.requests.push_back({.at_us = 0, .prompt_tokens = 600, .output_tokens = 3, .keys = {1, 2}});
  trace.requests.push_back(
      {.at_us = 4'000, .prompt_tokens = 700, .output_tokens = 0, .keys = {1, 3}});
  trace.requests.push_back({.at_us = 9'000, .prompt_tokens = 5, .output_tokens = 1, .keys = {}});
  const auto requests = MakeFromTrace(trace, {.speed = 2});
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(Words(requests[0].prompt), 600);
  EXPECT_EQ(Words(requests[1].prompt), 700);
  const auto [a, b] = std::mismatch(requests[0].prompt.begin(), requests[0].prompt.end(),
                                    requests[1].prompt.begin());
  EXPECT_GE(Words(std::string(requests[0].prompt.begin(), a)), 512);
  EXPECT_LT(Words(std::string(requests[0].prompt.begin(), a)), 520);
  EXPECT_EQ(requests[1].at_ns, 2 * kNsPerMs);
  EXPECT_EQ(requests[1].output_tokens, 1u);
  const auto closed = MakeFromTrace(trace, {.speed = 0, .requests_max = 2, .seed = 2});
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[1].at_ns, 0);
  EXPECT_NE(closed[0].prompt, requests[0].prompt) << "another seed, other words";
}

}  // namespace
}  // namespace fak::perf

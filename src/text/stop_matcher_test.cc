#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace fak::text {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> stop;
  bool operator==(const Outcome&) const = default;
};

// The definition: the stop string that ends first, of those the longest, of equals the first.
Outcome Reference(const std::vector<std::string>& stops, std::string_view text, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> found;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (!stops[i].empty() && text.substr(0, end).ends_with(stops[i]) &&
          (!found || stops[i].size() > stops[*found].size())) {
        found = i;
      }
    }
    if (found) {
      return {std::string(text.substr(0, include_stop ? end : end - stops[*found].size())), found};
    }
  }
  return {std::string(text), std::nullopt};
}

// The longest end of the text that begins a stop string.
size_t MustHold(const std::vector<std::string>& stops, std::string_view text) {
  size_t hold = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) {
        hold = std::max(hold, n);
      }
    }
  }
  return hold;
}

TEST(StopMatcher, FindsTheSameStopHoweverTheTextIsCut) {
  for (uint32_t seed = 1; seed <= 20000; ++seed) {
    std::minstd_rand random(seed);
    const auto word = [&random](size_t length_max) {
      std::string text;
      for (size_t length = random() % (length_max + 1); text.size() < length;) {
        text += static_cast<char>('a' + random() % 2);
      }
      return text;
    };
    std::vector<std::string> stops;
    for (size_t count = random() % 4; stops.size() < count;) {
      stops.push_back(word(5));
    }
    const std::string text = word(24);
    const bool include_stop = random() % 2 == 0;
    StopMatcher matcher(stops, include_stop);
    Outcome outcome;
    for (size_t at = 0; at < text.size() && !outcome.stop;) {
      const size_t length = std::min<size_t>(1 + random() % 5, text.size() - at);
      outcome.stop = matcher.Feed(std::string_view(text).substr(at, length), outcome.text);
      at += length;
      if (!outcome.stop) {
        ASSERT_EQ(matcher.held_bytes(), MustHold(stops, text.substr(0, at)));
        ASSERT_EQ(outcome.text.size() + matcher.held_bytes(), at);
      }
    }
    if (!outcome.stop) {
      matcher.Flush(outcome.text);
    }
    ASSERT_TRUE(outcome == Reference(stops, text, include_stop)) << seed;
  }
}

TEST(StopMatcher, IsSilentAfterAStop) {
  const std::vector<std::string> stops = {"END"};
  StopMatcher matcher(stops);
  std::string out;
  EXPECT_EQ(matcher.Feed("text EN", out), std::nullopt);
  EXPECT_EQ(out, "text ");
  EXPECT_EQ(matcher.Feed("D more", out), 0u);
  EXPECT_EQ(matcher.Feed("more", out), 0u);
  matcher.Flush(out);
  EXPECT_EQ(out, "text ");
}

TEST(StopMatcher, HoldsNothingWithoutStops) {
  StopMatcher matcher({});
  std::string out;
  EXPECT_EQ(matcher.Feed("text", out), std::nullopt);
  EXPECT_EQ(out, "text");
}

}  // namespace
}  // namespace fak::text

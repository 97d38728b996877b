#include "perf/serve_workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"

namespace fak::perf {
namespace {

constexpr std::array<std::string_view, 64> kWords = {
    " time",       " year",   " people",  " way",     " day",     " man",      " thing",
    " woman",      " life",   " child",   " world",   " school",  " state",    " family",
    " student",    " group",  " country", " problem", " hand",    " part",     " place",
    " case",       " week",   " company", " system",  " program", " question", " work",
    " government", " number", " night",   " point",   " home",    " water",    " room",
    " mother",     " area",   " money",   " story",   " fact",    " month",    " lot",
    " right",      " study",  " book",    " eye",     " job",     " word",     " business",
    " issue",      " side",   " kind",    " head",    " house",   " service",  " friend",
    " father",     " power",  " hour",    " game",    " line",    " end",      " member",
    " law"};

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return SplitMix64(state_); }
  // In (0, 1].
  double Unit() { return (static_cast<double>(Next() >> 11) + 1.0) * 0x1p-53; }
  double Normal() {
    return std::sqrt(-2.0 * std::log(Unit())) * std::cos(2.0 * std::numbers::pi * Unit());
  }
  // Marsaglia and Tsang 2000; below shape 1 by their boost.
  double Gamma(double shape) {
    if (shape < 1.0) {
      return Gamma(shape + 1.0) * std::pow(Unit(), 1.0 / shape);
    }
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    while (true) {
      const double x = Normal();
      const double root = 1.0 + c * x;
      const double v = root * root * root;
      if (v > 0.0 && std::log(Unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return d * v;
      }
    }
  }
  // Around a length, at least 1.
  uint32_t Length(uint32_t length, double ratio) {
    const double low = std::floor(length * (1.0 - ratio));
    const double high = std::ceil(length * (1.0 + ratio));
    const double drawn = std::min(high, low + std::floor((high - low + 1.0) * Unit()));
    return static_cast<uint32_t>(std::max(1.0, drawn));
  }

 private:
  uint64_t state_;
};

void AppendWords(std::string& out, Draws& draws, uint64_t words) {
  for (uint64_t i = 0; i < words; ++i) {
    out += kWords[draws.Next() % kWords.size()];
  }
}

}  // namespace

std::vector<ServeRequest> MakeSynthetic(const SyntheticWorkload& workload) {
  Draws draws(workload.seed);
  std::vector<std::string> prefixes(workload.prefixes);
  for (std::string& prefix : prefixes) {
    AppendWords(prefix, draws, workload.prefix_words);
  }
  std::vector<ServeRequest> requests(workload.requests);
  double at_s = 0;
  for (ServeRequest& request : requests) {
    request.prompt = prefixes[draws.Next() % prefixes.size()];
    AppendWords(request.prompt, draws, draws.Length(workload.input_words, workload.range_ratio));
    request.output_tokens = draws.Length(workload.output_tokens, workload.range_ratio);
    if (workload.rate > 0) {
      request.at_ns = static_cast<int64_t>(at_s * static_cast<double>(kNsPerSecond));
      at_s += draws.Gamma(workload.burstiness) / (workload.burstiness * workload.rate);
    }
  }
  return requests;
}

std::vector<ServeRequest> MakeFromTrace(const RouteTrace& trace, const TracedWorkload& workload) {
  std::vector<ServeRequest> requests;
  uint64_t lone_blocks = 0;
  for (const TraceRequest& traced : trace.requests) {
    if (requests.size() == workload.requests_max) {
      break;
    }
    ServeRequest& request = requests.emplace_back();
    request.output_tokens = static_cast<uint32_t>(std::max<int64_t>(1, traced.output_tokens));
    if (workload.speed > 0) {
      request.at_ns =
          static_cast<int64_t>(static_cast<double>(traced.at_us * kNsPerUs) / workload.speed);
    }
    int64_t left = traced.prompt_tokens;
    for (size_t block = 0; left > 0; ++block) {
      // A trace without blocks says nothing of contents: each prompt is of its own.
      const uint64_t key = block < traced.keys.size() ? traced.keys[block] : ++lone_blocks;
      Draws draws(Xxh3(BytesOf(std::span<const uint64_t>(&key, 1)), workload.seed));
      const int64_t words = std::min(left, kTraceBlockTokens);
      AppendWords(request.prompt, draws, static_cast<uint64_t>(words));
      left -= words;
    }
  }
  return requests;
}

}  // namespace fak::perf

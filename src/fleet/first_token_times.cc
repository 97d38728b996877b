#include "fleet/first_token_times.h"

#include <algorithm>
#include <cmath>

namespace fak::fleet {

void FirstTokenTimes::Record(int64_t now_ns, int64_t took_ns) {
  ring_[count_ % kKept] = {now_ns, took_ns};
  ++count_;
}

std::optional<int64_t> FirstTokenTimes::QuantileNs(double q, int64_t since_ns, size_t least) const {
  std::vector<int64_t> took;
  for (size_t i = 0; i < std::min(count_, kKept); ++i) {
    if (ring_[i].at_ns >= since_ns) {
      took.push_back(ring_[i].took_ns);
    }
  }
  if (took.empty() || took.size() < least) {
    return std::nullopt;
  }
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(took.size())));
  const auto at = took.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(took.begin(), at, took.end());
  return *at;
}

std::vector<size_t> SlowReplicas(std::span<const TypicalFirstToken> replicas) {
  constexpr size_t kLeast = 3;
  const auto out = static_cast<size_t>(
      std::count_if(replicas.begin(), replicas.end(), [](const auto& each) { return each.out; }));
  const size_t most = replicas.size() / kLeast;
  std::vector<size_t> slow;
  for (size_t i = 0; i < replicas.size(); ++i) {
    if (replicas[i].out || !replicas[i].ns) {
      continue;
    }
    std::vector<int64_t> others;
    for (size_t j = 0; j < replicas.size(); ++j) {
      if (j != i && !replicas[j].out && replicas[j].ns) {
        others.push_back(*replicas[j].ns);
      }
    }
    if (others.size() + 1 < kLeast) {
      continue;
    }
    const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
    std::nth_element(others.begin(), middle, others.end());
    if (*replicas[i].ns > *middle * kSlowTimes && *replicas[i].ns - *middle >= kSlowLeastNs) {
      slow.push_back(i);
    }
  }
  std::sort(slow.begin(), slow.end(),
            [&](size_t a, size_t b) { return *replicas[a].ns > *replicas[b].ns; });
  slow.resize(std::min(slow.size(), most - std::min(most, out)));
  return slow;
}

}  // namespace fak::fleet

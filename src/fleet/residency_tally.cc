#include "fleet/residency_tally.h"

#include <algorithm>

namespace fak::fleet {

double ResidencyTally::Figures::error() const {
  return prompt_tokens == 0
             ? 0
             : static_cast<double>(over_tokens + under_tokens) / static_cast<double>(prompt_tokens);
}

void ResidencyTally::Count(int64_t prompt_tokens, int64_t estimated_tokens, int64_t cached_tokens) {
  const int64_t prompt = std::max<int64_t>(prompt_tokens, 0);
  const auto estimated = static_cast<uint64_t>(std::clamp<int64_t>(estimated_tokens, 0, prompt));
  const auto cached = static_cast<uint64_t>(std::clamp<int64_t>(cached_tokens, 0, prompt));
  const std::lock_guard lock(mutex_);
  ++figures_.requests;
  figures_.prompt_tokens += static_cast<uint64_t>(prompt);
  figures_.estimated_tokens += estimated;
  figures_.cached_tokens += cached;
  figures_.over_tokens += estimated - std::min(estimated, cached);
  figures_.under_tokens += cached - std::min(estimated, cached);
}

ResidencyTally::Figures ResidencyTally::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

}  // namespace fak::fleet

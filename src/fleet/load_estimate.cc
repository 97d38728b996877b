#include "fleet/load_estimate.h"

#include <algorithm>
#include <cmath>

namespace fak::fleet {
namespace {

constexpr double kRemembered = 0.9;  // of what was known, with each prompt

double Mixed(double known, double seen) {
  return kRemembered * known + (1 - kRemembered) * seen;
}

}  // namespace

void LoadEstimate::Place(int64_t now_us, int64_t uncached_tokens) {
  if (prompts_.empty()) {
    since_us_ = now_us;
  }
  prompts_.push_back(uncached_tokens);
  prompt_tokens_ += uncached_tokens;
  ++own_in_flight_;
}

void LoadEstimate::Prefilled(int64_t now_us, int64_t uncached_tokens) {
  const auto at = std::find(prompts_.begin(), prompts_.end(), uncached_tokens);
  if (at == prompts_.end()) {
    return;
  }
  constexpr int64_t kTogetherUs = 1000;
  if (now_us - since_us_ > kTogetherUs) {
    together_ = Mixed(together_, static_cast<double>(last_together_));
    last_together_ = 0;
  }
  last_together_ += uncached_tokens;
  computed_tokens_ = Mixed(computed_tokens_, static_cast<double>(uncached_tokens));
  computed_us_ = Mixed(computed_us_, static_cast<double>(now_us - since_us_));
  since_us_ = now_us;
  prompts_.erase(at);
  prompt_tokens_ -= uncached_tokens;
}

// Against all of ours: a report may not know of the progress that we count on.
void LoadEstimate::Report(int64_t backlog_tokens, int64_t in_flight) {
  others_backlog_ = std::max<int64_t>(0, backlog_tokens - prompt_tokens_);
  others_in_flight_ = std::max<int64_t>(0, in_flight - own_in_flight_);
}

int64_t LoadEstimate::OwnBacklog(int64_t now_us) const {
  if (prompts_.empty() || computed_us_ <= 0) {
    return prompt_tokens_;
  }
  const double done = computed_tokens_ / computed_us_ * static_cast<double>(now_us - since_us_);
  const auto all = static_cast<double>(prompt_tokens_);
  const auto most = std::min(all, std::max(static_cast<double>(prompts_.front()), together_));
  return prompt_tokens_ - std::llround(std::clamp(done, 0.0, most));
}

}  // namespace fak::fleet

#pragma once

#include <cstdint>
#include <deque>

namespace fak::fleet {

// What one gateway believes of a replica's load: its own requests, which it knows, and those of
// other gateways, which the replica's last report had beyond them. Gateways that share nothing so
// see each other's work within one interval of reports.
//
// A gateway sees a prompt end and not how far it has come: what the replica will have done since at
// its usual rate isn't counted any more, but no more than the oldest prompt, or as many as usually
// end together. Without that a replica that is about to be free looks like one that has just begun.
//
// Times are of one monotonic clock. Not thread-safe.
class LoadEstimate {
 public:
  // A request was placed there, of which so many prompt tokens are believed not to be cached.
  void Place(int64_t now_us, int64_t uncached_tokens);
  // Its prompt is computed, or it ended before that; the same number.
  void Prefilled(int64_t now_us, int64_t uncached_tokens);
  // It ended.
  void End() { --own_in_flight_; }

  // The replica's own figures, of all that it was sent: prompt tokens to compute, requests.
  void Report(int64_t backlog_tokens, int64_t in_flight);

  int64_t backlog_tokens(int64_t now_us) const { return OwnBacklog(now_us) + others_backlog_; }
  // Ours that aren't computed: requests, and tokens, none of them taken for done.
  int64_t waiting() const { return static_cast<int64_t>(prompts_.size()); }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  // How fast prompts were computed lately; 0: not known.
  double tokens_per_s() const {
    return computed_us_ > 0 ? computed_tokens_ / computed_us_ * 1e6 : 0;
  }
  int64_t in_flight() const { return own_in_flight_ + others_in_flight_; }

 private:
  int64_t OwnBacklog(int64_t now_us) const;

  std::deque<int64_t> prompts_;  // ours, in the order in which they were placed
  int64_t prompt_tokens_ = 0;    // their sum
  int64_t own_in_flight_ = 0;
  int64_t since_us_ = 0;  // when the last of ours was computed, or the first came after a pause
  // What was computed in which time; the past counts less and less.
  double computed_tokens_ = 0;
  double computed_us_ = 0;
  double together_ = 0;         // tokens of prompts that usually end together
  int64_t last_together_ = 0;   // of those that ended last
  int64_t others_backlog_ = 0;  // when they were last reported
  int64_t others_in_flight_ = 0;
};

}  // namespace fak::fleet

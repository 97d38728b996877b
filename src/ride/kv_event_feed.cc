#include "ride/kv_event_feed.h"

#include <utility>

#include "base/limits.h"
#include "net/zmq_publisher.h"

namespace fak::ride {

KvEventFeedStats& KvEventFeedStats::operator+=(const KvEventFeedStats& other) {
  for (uint64_t KvEventFeedStats::* const count :
       {&KvEventFeedStats::batches, &KvEventFeedStats::gaps, &KvEventFeedStats::replays,
        &KvEventFeedStats::replays_failed, &KvEventFeedStats::restarts, &KvEventFeedStats::cleared,
        &KvEventFeedStats::duplicates, &KvEventFeedStats::late, &KvEventFeedStats::malformed,
        &KvEventFeedStats::corrupt, &KvEventFeedStats::foreign}) {
    this->*count += other.*count;
  }
  skipped += other.skipped;
  return *this;
}

KvEventFeed::KvEventFeed(KvEventFeedOptions options, const Clock& clock, OnBatch on_batch,
                         AskReplay ask_replay)
    : options_(options),
      clock_(clock),
      on_batch_(std::move(on_batch)),
      ask_replay_(std::move(ask_replay)),
      rank_(options.rank) {}

bool KvEventFeed::MayReplay() const {
  return options_.can_replay && clock_.NowNs() >= no_replay_before_ns_;
}

void KvEventFeed::OnConnected() {
  if (options_.can_replay && !replaying_) {
    Ask();
  }
}

void KvEventFeed::OnDisconnected() {
  Clear();
  expected_ = 0;
  last_live_.reset();
  replaying_ = false;
  held_.clear();
  held_bytes_ = 0;
  no_replay_before_ns_ = 0;
}

// nullopt: the batch is another rank's.
std::optional<KvEventFeed::Held> KvEventFeed::Decode(uint64_t sequence, std::string_view payload) {
  Held held{std::nullopt, sequence, payload.size()};
  auto decoded = kv::DecodeKvEvents(payload);
  if (!decoded) {
    ++stats_.corrupt;
    return held;
  }
  if (decoded->has_rank && rank_.value_or(decoded->batch.rank) != decoded->batch.rank) {
    ++stats_.foreign;
    return std::nullopt;
  }
  if (decoded->has_rank) {
    rank_ = decoded->batch.rank;
  }
  stats_.skipped += decoded->skipped;
  held.batch = std::move(decoded->batch);
  held.batch->sequence = sequence;
  held.batch->rank = rank_.value_or(0);
  return held;
}

void KvEventFeed::OnMessage(const std::vector<std::string>& frames) {
  const std::optional<uint64_t> sequence =
      frames.size() == 3 ? net::ParseBigEndian64(frames[1]) : std::nullopt;
  if (!sequence || *sequence == net::kReplayEnd) {
    ++stats_.malformed;
    return;
  }
  if (std::optional<Held> held = Decode(*sequence, frames[2])) {
    TakeLive(*std::move(held));
  }
}

// A publisher's numbers rise in the order of its messages. What a replay brought before comes again
// as a message, with the time that it had; a restarted engine counts from 0 at a later time.
bool KvEventFeed::WentBack(const Held& held) const {
  if (last_live_ && held.sequence <= *last_live_) {
    return true;
  }
  return held.sequence < expected_ && held.batch && held.batch->time_s > last_time_s_;
}

bool KvEventFeed::IsRepeated(const Held& held) const {
  return last_live_ && held.sequence == *last_live_ && held.batch &&
         held.batch->time_s == last_live_time_s_;
}

void KvEventFeed::TakeLive(Held held) {
  if (IsRepeated(held)) {
    ++stats_.duplicates;
    return;
  }
  if (WentBack(held)) {
    ++stats_.restarts;
    OnDisconnected();  // whatever was known is another process's
  }
  last_live_ = held.sequence;
  last_live_time_s_ = held.batch ? held.batch->time_s : 0;
  if (replaying_) {
    Hold(std::move(held));
    return;
  }
  if (held.sequence > expected_) {
    ++stats_.gaps;
    if (MayReplay()) {
      Hold(std::move(held));
      Ask();
      return;
    }
  }
  TakeInOrder(std::move(held));
}

void KvEventFeed::Ask() {
  ++stats_.replays;
  replaying_ = true;
  asked_from_ = expected_;
  ask_replay_(expected_);
}

void KvEventFeed::Hold(Held held) {
  held_bytes_ += held.bytes;
  held_.push_back(std::move(held));
  if (held_.size() > limits::kKvEventPendingMax || held_bytes_ > limits::kKvEventPendingBytesMax) {
    OnReplayFailed();
  }
}

// Nothing but a hole may stand between the last batch and this one; it can't be filled any more.
void KvEventFeed::TakeInOrder(Held held) {
  if (held.sequence < expected_) {
    ++stats_.duplicates;
    return;
  }
  if (held.sequence > expected_ || !held.batch) {
    Clear();
  }
  Apply(std::move(held));
}

void KvEventFeed::Apply(Held held) {
  expected_ = held.sequence + 1;
  if (held.batch) {
    last_time_s_ = held.batch->time_s;
    held.batch->generation = generation_;
    handed_on_ = true;
    ++stats_.batches;
    on_batch_(*held.batch);
  }
}

void KvEventFeed::Clear() {
  if (!handed_on_) {
    return;
  }
  handed_on_ = false;
  ++generation_;
  ++stats_.cleared;
  wire::KvEventBatch batch;
  batch.sequence = expected_;
  batch.generation = generation_;
  batch.rank = rank_.value_or(0);
  batch.time_s = last_time_s_;
  batch.events.emplace_back().kind = wire::KvEvent::Kind::kCleared;
  on_batch_(batch);
}

bool KvEventFeed::OnReplayed(const std::vector<std::string>& frames) {
  if (!replaying_) {
    ++stats_.late;
    return false;
  }
  const bool has_topic = frames.size() == 4;
  const std::optional<uint64_t> sequence = has_topic || frames.size() == 3
                                               ? net::ParseBigEndian64(frames[frames.size() - 2])
                                               : std::nullopt;
  if (!sequence) {
    ++stats_.malformed;
    return true;
  }
  if (*sequence == net::kReplayEnd) {
    EndReplay(true);
    return replaying_;
  }
  if (std::optional<Held> held = Decode(*sequence, frames.back())) {
    TakeInOrder(*std::move(held));
  }
  return true;
}

void KvEventFeed::OnReplayFailed() {
  if (replaying_) {
    ++stats_.replays_failed;
    no_replay_before_ns_ = clock_.NowNs() + limits::kKvReplayCooldownMs * kNsPerMs;
    EndReplay(false);
  }
}

// What waited goes on. Live messages may have been lost meanwhile as well: that gap is asked for
// too, as long as asking brings anything.
void KvEventFeed::EndReplay(bool more_may_come) {
  replaying_ = false;
  while (!held_.empty()) {
    if (held_.front().sequence > expected_ && more_may_come && expected_ > asked_from_) {
      Ask();
      return;
    }
    Held held = std::move(held_.front());
    held_.pop_front();
    held_bytes_ -= held.bytes;
    TakeInOrder(std::move(held));
  }
}

}  // namespace fak::ride

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "kv/event_codec.h"
#include "wire/kv_event.h"

namespace fak::ride {

struct KvEventFeedOptions {
  // Batches that name another data-parallel rank are dropped. Absent: the first one's rank holds.
  std::optional<int32_t> rank = {};
  bool can_replay = false;
};

struct KvEventFeedStats {
  uint64_t batches = 0;  // handed on
  uint64_t gaps = 0;     // in what was published
  uint64_t replays = 0;  // asked for
  uint64_t replays_failed = 0;
  uint64_t restarts = 0;  // of the publisher, by its numbers
  uint64_t cleared = 0;   // generations that ended
  uint64_t duplicates = 0;
  uint64_t late = 0;       // answers to a replay that was over
  uint64_t malformed = 0;  // messages that are none of ours
  uint64_t corrupt = 0;    // batches that can't be read
  uint64_t foreign = 0;    // of another rank
  kv::KvEventsSkipped skipped = {};

  KvEventFeedStats& operator+=(const KvEventFeedStats& other);
};

// One publisher's messages as batches without a gap, so that an index fed with them never believes
// in a block that has gone unseen. No socket and no timer: its owner brings messages and tells what
// happened.
//
// A gap in the numbers is filled by a replay where there is one; live batches wait meanwhile. What
// can't be filled ends the generation: a batch with Cleared, and a higher generation from then on.
// Numbers that go back are a restart and end it too, as does a lost connection: the engine may have
// been replaced behind it. Before anything was handed on, a gap costs nothing: what isn't known
// isn't wrong.
//
// Not thread-safe; callbacks come from within the calls, and must not call back.
class KvEventFeed {
 public:
  using OnBatch = std::function<void(const wire::KvEventBatch&)>;
  // Ask the publisher for everything from `first` on. Answers to an earlier request must not be
  // brought any more.
  using AskReplay = std::function<void(uint64_t first)>;

  KvEventFeed(KvEventFeedOptions options, const Clock& clock, OnBatch on_batch,
              AskReplay ask_replay);

  // The connection stands: asks for what was published before.
  void OnConnected();
  void OnDisconnected();
  // A published message: topic, number, payload.
  void OnMessage(const std::vector<std::string>& frames);
  // An answer of the replay: [empty, topic, number, payload], or of older engines [empty, number,
  // payload]; number -1 ends it. False: it has ended.
  bool OnReplayed(const std::vector<std::string>& frames);
  // It didn't come, or stopped coming.
  void OnReplayFailed();

  bool replaying() const { return replaying_; }
  uint64_t generation() const { return generation_; }
  const KvEventFeedStats& stats() const { return stats_; }

 private:
  struct Held {
    std::optional<wire::KvEventBatch> batch;  // absent: it came and can't be read
    uint64_t sequence = 0;
    size_t bytes = 0;
  };

  std::optional<Held> Decode(uint64_t sequence, std::string_view payload);
  void TakeLive(Held held);
  bool WentBack(const Held& held) const;
  bool IsRepeated(const Held& held) const;
  void TakeInOrder(Held held);
  void Apply(Held held);
  void Hold(Held held);
  void Ask();
  void EndReplay(bool more_may_come);
  void Clear();
  bool MayReplay() const;

  const KvEventFeedOptions options_;
  const Clock& clock_;
  const OnBatch on_batch_;
  const AskReplay ask_replay_;

  std::optional<int32_t> rank_;
  uint64_t generation_ = 0;
  uint64_t expected_ = 0;              // the next number to hand on
  bool handed_on_ = false;             // something, in this generation
  double last_time_s_ = 0;             // of the last batch handed on
  std::optional<uint64_t> last_live_;  // number of the last published message
  double last_live_time_s_ = 0;

  bool replaying_ = false;
  uint64_t asked_from_ = 0;
  int64_t no_replay_before_ns_ = 0;
  std::deque<Held> held_;  // live, behind what the replay brings
  size_t held_bytes_ = 0;
  KvEventFeedStats stats_;
};

}  // namespace fak::ride

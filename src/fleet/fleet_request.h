#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver/engine_driver.h"
#include "fleet/drained.h"
#include "fleet/failure.h"
#include "fleet/fleet_replica.h"
#include "fleet/resumable_answer.h"

namespace fak::fleet {

class Attempt;
class Dispatcher;

// What a client says that keeps its requests together: x-session-id, or of the OpenAI API
// prompt_cache_key and, before that was there, user; with its tenant. Empty: nothing.
std::string SessionOf(const driver::Prepared& prepared);

// One request on its way through a fleet, from Admit() to its end. Who places it, the thread of
// Admit() or whoever took its last attempt away, is one thread at a time; Cancel() and
// LeaveIfGone() come from any.
class FleetRequest : public std::enable_shared_from_this<FleetRequest> {
 public:
  FleetRequest(Dispatcher& dispatcher, std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink);

  const std::string& id() const { return id_; }
  const wire::Turn& turn() const { return *turn_; }
  const std::string& model() const { return model_; }  // as of driver::ModelOf()
  Asked asked() const { return {model_, turn_->surface}; }
  // As of driver::Prepared, until content was passed on: then no other model is left to try.
  bool only_well() const;
  const std::optional<int64_t>& deadline_ns() const { return deadline_ns_; }
  // For whoever places it, while nothing was passed on: not null then.
  std::shared_ptr<const driver::Prepared> prepared() const;
  driver::EventSink& sink() const { return *sink_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  const std::string& session() const { return session_; }
  int64_t admitted_ns() const { return admitted_ns_; }
  // What its last attempt failed with, for when nobody is left; nullopt: it had none.
  std::optional<Error> last_error() const;
  void NoteError(std::optional<Error> error);

  // Whether it hasn't been there, and may go there: once content was passed on, to who can go on.
  bool MayGoTo(const FleetReplica& replica) const;
  int attempts() const;
  // It goes there now. kCancelled: it doesn't, it was cancelled.
  [[nodiscard]] Status GoTo(std::shared_ptr<FleetReplica> replica);
  // Its driver has taken it; from now on the attempt may be taken away. Nothing where it has ended
  // or moved on since.
  void SetTaken(const std::shared_ptr<Attempt>& attempt);
  bool cancelled() const;

  void Cancel();
  // Takes it away from a replica where nobody is any more and nothing came from, if it can go
  // elsewhere; if all others have had it, it fails.
  void LeaveIfGone(int64_t now_ns);
  // Its attempt failed, and nothing was passed on. maybe_headers: that came with the failure.
  void OnFailed(Error error, const FailureReading& reading,
                std::optional<wire::UpstreamHeaders> maybe_headers);
  // It stays where it is: what another try would need goes, which is most of its memory.
  void ForgetPrepared();
  // Content of this was passed on: only its like can go on with it.
  void StayWith(Artifact artifact);
  // Its attempt broke off after content, which `answer` has. Whether it goes on elsewhere, or was
  // told how it ended; if not, `answer` is untouched.
  bool GoOn(std::unique_ptr<ResumableAnswer>& answer, const Error& error);
  // What the next attempt goes on with; null: it begins anew.
  std::unique_ptr<ResumableAnswer> TakeAnswer();
  void ReturnAnswer(std::unique_ptr<ResumableAnswer> answer);
  int resumed() const;
  // Who goes on, can't: that isn't the client's to be told, but what it first broke off with.
  Error ToTell(const Error& error, const FailureReading& reading) const;
  // Of each of its prompts, for the residency index.
  std::vector<std::vector<uint64_t>> UnitKeys() const;
  // It ends so; nobody has it.
  void Fail(Error error, std::optional<wire::UpstreamHeaders> maybe_headers);

 private:
  Dispatcher& dispatcher_;
  const std::string id_;
  const std::shared_ptr<const wire::Turn> turn_;
  const std::string model_;
  const bool only_well_;
  const std::optional<int64_t> deadline_ns_;
  const std::shared_ptr<driver::EventSink> sink_;
  const int64_t prompt_tokens_;
  const std::string session_;
  const int64_t admitted_ns_;

  mutable std::mutex mutex_;                          // guards the members below
  std::shared_ptr<const driver::Prepared> prepared_;  // null: forgotten
  std::vector<std::vector<uint64_t>> unit_keys_;      // of what was forgotten
  std::shared_ptr<FleetReplica> maybe_replica_;
  std::weak_ptr<Attempt> attempt_;  // that its driver has taken
  std::vector<ReplicaId> tried_;
  std::optional<Error> last_error_;
  std::optional<Artifact> stays_with_;
  std::unique_ptr<ResumableAnswer> answer_;  // between two attempts
  std::optional<Error> broke_off_;           // first, after content
  int resumed_ = 0;
  bool cancelled_ = false;
};

// One try of a request at one replica: the sink that its driver gets. Until the first content it
// holds back the little that came (headers, a start, chunks without content), so that another
// replica can take over as if nothing had been; from then on events go straight through, without a
// lock. Where an answer can be gone on with elsewhere it keeps what that takes, and one that goes
// on holds nothing back. Hot path: bench/e2e.
class Attempt final : public driver::EventSink {
 public:
  // Counted at the replica from here on, and keeps it.
  // cached_tokens: of its prompt, as the residency index has it.
  Attempt(std::shared_ptr<FleetRequest> request, Dispatcher& dispatcher,
          std::shared_ptr<FleetReplica> replica, int64_t now_ns, int64_t cached_tokens);
  ~Attempt() override;

  const std::shared_ptr<FleetReplica>& replica() const { return kept_replica_; }

  void OnEvent(wire::Event&& event) noexcept override;
  void BeginBatch() noexcept override;
  void EndBatch() noexcept override;
  void ListHot(HotLines& lines) const noexcept override {
    lines.AddObject(*this);
    sink_.ListHot(lines);
  }
  void AwaitRoom(std::function<void()> on_room) override;

  // Its driver refused it: nothing comes of it. What that says.
  FailureReading Refused(const Error& error);
  // Any thread. Takes it away where nothing was passed on yet and it hasn't ended; whether it did.
  bool TakeAway(const Error& why);
  // Any thread. Whether nothing was passed on yet, and it hasn't ended.
  bool held() const { return phase_.load() == Phase::kHeld; }
  // Any thread. Its replica is gone, and its stream can be gone on with: with the cancel that
  // follows it breaks off. Whether it can, and this is the first call.
  bool Abandon() { return resumable_.load() && !abandoned_.exchange(true); }

 private:
  enum class Phase : uint8_t { kHeld, kPassed, kOver };
  bool MoveOn(Phase to);
  void OnHeldEvent(wire::Event&& event);
  bool KeepsBack(const wire::Event& event) const;
  void OnPassedEvent(wire::Event&& event);
  void Remember(const wire::Event& event);
  bool GoesOnElsewhere(wire::Failed& failed);
  void PassOnHeld();
  void NoteContent();
  void OnLast(const Error* maybe_error);
  wire::Usage Believable(wire::Usage usage) const;
  FailureReading Read(const Error& error, bool reached) const;
  // Of the replica's counts; once.
  void Leave(Verdict verdict, const Error* maybe_error, const wire::Usage& usage = {-1, -1});

  const std::shared_ptr<FleetRequest> request_;
  driver::EventSink& sink_;  // request_ keeps it
  Dispatcher& dispatcher_;
  const std::shared_ptr<FleetReplica> kept_replica_;
  FleetReplica& replica_;
  const int64_t began_ns_;
  const int64_t cached_tokens_;
  const int64_t uncached_tokens_;
  const int64_t sequences_;  // prompts, each as often as it is answered
  const BreakerTicket ticket_;
  const bool holds_chunks_;
  std::atomic<Phase> phase_{Phase::kHeld};
  std::atomic<bool> in_backlog_{true};
  std::atomic<bool> left_{false};
  std::atomic<bool> resumable_{false};  // content was passed on, and answer_ has it
  std::atomic<bool> abandoned_{false};

  // Thread of its driver's events.
  bool passed_ = false;
  bool content_seen_ = false;
  bool in_batch_ = false;
  bool batch_told_ = false;
  std::unique_ptr<ResumableAnswer> answer_;  // null: it can't be gone on with
  std::vector<wire::Event> held_;
  size_t held_bytes_ = 0;
  wire::Usage usage_{-1, -1};
};

}  // namespace fak::fleet

#include "fleet/fleet_request.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "fleet/dispatcher.h"
#include "kv/unit_keys.h"

namespace fak::fleet {
namespace {

int64_t PromptTokens(const driver::Prepared& prepared) {
  int64_t tokens = 0;
  for (const driver::PreparedPrompt& prompt : prepared.prompts) {
    const size_t counted = prompt.tokens.empty()
                               ? prompt.text.size() / (kv::kUnitBytes / kv::kUnitTokens)
                               : prompt.tokens.size();
    tokens += static_cast<int64_t>(counted);
  }
  return tokens;
}

bool IsContent(const wire::Event& event) {
  return std::holds_alternative<wire::TextDelta>(event) ||
         std::holds_alternative<wire::ReasoningDelta>(event) ||
         std::holds_alternative<wire::ToolCallDelta>(event) ||
         std::holds_alternative<wire::PromptEcho>(event) ||
         std::holds_alternative<wire::Finish>(event);
}

int64_t Sequences(const FleetRequest& request) {
  const size_t prompts = std::max<size_t>(request.prepared()->prompts.size(), 1);
  return static_cast<int64_t>(prompts) * std::max(request.turn().n, 1);
}

size_t HeldBytes(const wire::Event& event) {
  const auto* chunk = std::get_if<wire::RawChunk>(&event);
  return sizeof(event) + (chunk == nullptr ? 0 : chunk->json.size() + chunk->type.size());
}

bool EndsOrCounts(const wire::Event& event) {
  return std::holds_alternative<wire::Done>(event) || std::holds_alternative<wire::Failed>(event) ||
         std::holds_alternative<wire::UsageReport>(event);
}

}  // namespace

std::string SessionOf(const driver::Prepared& prepared) {
  std::string session(prepared.client_headers.Get("x-session-id").value_or(""));
  for (const char* field : {"prompt_cache_key", "user"}) {
    const Json* value =
        session.empty() && prepared.document != nullptr ? prepared.document->Find(field) : nullptr;
    if (value != nullptr && value->is_string()) {
      session = value->string();
    }
  }
  return session.empty() ? session : prepared.tenant + "\n" + session;
}

FleetRequest::FleetRequest(Dispatcher& dispatcher, std::shared_ptr<const driver::Prepared> prepared,
                           std::shared_ptr<driver::EventSink> sink)
    : dispatcher_(dispatcher),
      id_(prepared->request_id),
      turn_(prepared->turn),
      model_(driver::ModelOf(*prepared)),
      only_well_(prepared->only_well),
      deadline_ns_(prepared->deadline_ns),
      sink_(std::move(sink)),
      prompt_tokens_(PromptTokens(*prepared)),
      session_(SessionOf(*prepared)),
      admitted_ns_(dispatcher.clock().NowNs()),
      prepared_(std::move(prepared)) {}

std::shared_ptr<const driver::Prepared> FleetRequest::prepared() const {
  const std::lock_guard lock(mutex_);
  return prepared_;
}

void FleetRequest::ForgetPrepared() {
  std::vector<std::vector<uint64_t>> keys;
  if (dispatcher_.has_choice()) {
    keys = UnitKeys();
  }
  const std::lock_guard lock(mutex_);
  unit_keys_ = std::move(keys);
  prepared_.reset();
}

std::vector<std::vector<uint64_t>> FleetRequest::UnitKeys() const {
  const std::lock_guard lock(mutex_);
  if (prepared_ == nullptr) {
    return unit_keys_;
  }
  std::vector<std::vector<uint64_t>> keys;
  for (const driver::PreparedPrompt& prompt : prepared_->prompts) {
    keys.push_back(prompt.unit_keys);
  }
  return keys;
}

bool FleetRequest::MayGoTo(const FleetReplica& replica) const {
  const std::lock_guard lock(mutex_);
  if (std::find(tried_.begin(), tried_.end(), replica.id()) != tried_.end()) {
    return false;
  }
  return !stays_with_ || (*stays_with_ == Artifact::Of(*replica.driver().capabilities()) &&
                          prepared_ != nullptr && replica.driver().CanContinue(*prepared_));
}

bool FleetRequest::only_well() const {
  const std::lock_guard lock(mutex_);
  return only_well_ && !stays_with_;
}

int FleetRequest::attempts() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(tried_.size());
}

bool FleetRequest::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

std::optional<Error> FleetRequest::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void FleetRequest::NoteError(std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  last_error_ = std::move(error);
}

Status FleetRequest::GoTo(std::shared_ptr<FleetReplica> replica) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) {
    return fak::Fail(Code::kCancelled, "cancelled");
  }
  tried_.push_back(replica->id());
  maybe_replica_ = std::move(replica);
  attempt_.reset();
  return {};
}

void FleetRequest::SetTaken(const std::shared_ptr<Attempt>& attempt) {
  const std::lock_guard lock(mutex_);
  if (maybe_replica_ == attempt->replica()) {
    attempt_ = attempt;
  }
}

// Whoever places it looks whether it was cancelled before and after its replica knows of it, so
// that one of the two calls finds it there.
void FleetRequest::Cancel() {
  std::shared_ptr<FleetReplica> maybe_replica;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    maybe_replica = maybe_replica_;
  }
  if (maybe_replica != nullptr) {
    maybe_replica->driver().Cancel(id_);
  }
}

void FleetRequest::LeaveIfGone(int64_t now_ns) {
  std::shared_ptr<Attempt> attempt;
  {
    const std::lock_guard lock(mutex_);
    attempt = cancelled_ ? nullptr : attempt_.lock();
  }
  if (attempt == nullptr || !attempt->replica()->IsGone(now_ns)) {
    return;
  }
  const bool held = attempt->held();
  const bool may_leave = dispatcher_.MayLeave(*this);
  if (!may_leave && (!held || !dispatcher_.IsAtItsLast(*this))) {
    return;
  }
  FleetReplica& replica = *attempt->replica();
  if (!held) {
    if (attempt->Abandon()) {
      replica.driver().Cancel(id_);
    }
    return;
  }
  Error gone{Code::kUnavailable,
             "upstream " + replica.name() + " went away: " + replica.StatusAt(now_ns).why};
  if (!attempt->TakeAway(gone)) {
    return;
  }
  replica.driver().Cancel(id_);
  if (!may_leave) {
    gone.detail += "; no other that could answer is left to be tried";
    gone.retry_after_s = 1;
    Fail(std::move(gone), std::nullopt);
    return;
  }
  if (const Status placed = dispatcher_.Place(*this, std::move(gone)); !placed) {
    Fail(placed.error(), std::nullopt);
  }
}

void FleetRequest::OnFailed(Error error, const FailureReading& reading,
                            std::optional<wire::UpstreamHeaders> maybe_headers) {
  if (reading.curable && dispatcher_.MayTryElsewhere(*this)) {
    const Status placed = dispatcher_.Place(*this, std::move(error));
    if (placed) {
      return;
    }
    error = placed.error();
  } else if (reading.curable) {
    error = WithDrained(std::move(error), *dispatcher_.replicas(), asked());
  }
  Fail(std::move(error), std::move(maybe_headers));
}

void FleetRequest::StayWith(Artifact artifact) {
  const std::lock_guard lock(mutex_);
  stays_with_ = std::move(artifact);
}

bool FleetRequest::GoOn(std::unique_ptr<ResumableAnswer>& answer, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    auto going_on = std::make_shared<driver::Prepared>(*prepared_);
    going_on->maybe_continuation = std::make_shared<const driver::Continuation>(answer->Continue());
    prepared_ = std::move(going_on);
    broke_off_ = broke_off_ ? broke_off_ : error;
  }
  if (!dispatcher_.MayTryElsewhere(*this)) {
    return false;
  }
  dispatcher_.CountResumed();
  {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    ++resumed_;
  }
  if (const Status placed = dispatcher_.Place(*this, error); !placed) {
    const bool cancelled = placed.error().code == Code::kCancelled;
    Fail(cancelled ? placed.error() : error, std::nullopt);
  }
  return true;
}

std::unique_ptr<ResumableAnswer> FleetRequest::TakeAnswer() {
  const std::lock_guard lock(mutex_);
  return std::move(answer_);
}

void FleetRequest::ReturnAnswer(std::unique_ptr<ResumableAnswer> answer) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

int FleetRequest::resumed() const {
  const std::lock_guard lock(mutex_);
  return resumed_;
}

Error FleetRequest::ToTell(const Error& error, const FailureReading& reading) const {
  const std::lock_guard lock(mutex_);
  const bool own = error.code == Code::kCancelled || error.code == Code::kDeadlineExceeded;
  return broke_off_ && !reading.curable && !own ? *broke_off_ : error;
}

void FleetRequest::Fail(Error error, std::optional<wire::UpstreamHeaders> maybe_headers) {
  dispatcher_.Ended(*this, {-1, -1});
  if (maybe_headers) {
    sink_->OnEvent(*std::move(maybe_headers));
  }
  sink_->OnEvent(wire::Failed{std::move(error)});
}

Attempt::Attempt(std::shared_ptr<FleetRequest> request, Dispatcher& dispatcher,
                 std::shared_ptr<FleetReplica> replica, int64_t now_ns, int64_t cached_tokens)
    : request_(std::move(request)),
      sink_(request_->sink()),
      dispatcher_(dispatcher),
      kept_replica_(std::move(replica)),
      replica_(*kept_replica_),
      began_ns_(now_ns),
      cached_tokens_(cached_tokens),
      uncached_tokens_(request_->prompt_tokens() - cached_tokens),
      sequences_(Sequences(*request_)),
      ticket_(replica_.Begin(now_ns, uncached_tokens_)),
      holds_chunks_(request_->turn().surface == wire::Surface::kChat ||
                    request_->turn().surface == wire::Surface::kCompletion) {
  answer_ = request_->TakeAnswer();
  if (answer_ != nullptr) {
    phase_.store(Phase::kPassed);
    passed_ = true;
    resumable_.store(true);
    return;
  }
  const std::shared_ptr<const driver::Prepared> prepared = request_->prepared();
  const auto capabilities = replica_.driver().capabilities();
  if (prepared->for_resumption && !capabilities->artifact.empty() &&
      replica_.driver().CanContinue(*prepared)) {
    answer_ = std::make_unique<ResumableAnswer>(Artifact::Of(*capabilities),
                                                capabilities->continues_exactly);
  }
}

Attempt::~Attempt() {
  Leave(Verdict::kNothing, nullptr);
}

void Attempt::OnEvent(wire::Event&& event) noexcept {
  if (!passed_) {
    OnHeldEvent(std::move(event));
  } else if (!content_seen_ || answer_ != nullptr || EndsOrCounts(event)) {
    OnPassedEvent(std::move(event));
  } else {
    sink_.OnEvent(std::move(event));
  }
}

// Of other surfaces what comes before the content keeps the client's connection alive.
bool Attempt::KeepsBack(const wire::Event& event) const {
  if (held_bytes_ + HeldBytes(event) > limits::kHeldAnswerBytesMax) {
    return false;
  }
  return std::holds_alternative<wire::UpstreamHeaders>(event) ||
         std::holds_alternative<wire::Started>(event) ||
         (holds_chunks_ && (std::holds_alternative<wire::RawChunk>(event) ||
                            std::holds_alternative<wire::UsageReport>(event)));
}

void Attempt::OnHeldEvent(wire::Event&& event) {
  if (!held()) {
    return;  // it was taken away
  }
  if (auto* failed = std::get_if<wire::Failed>(&event)) {
    if (!MoveOn(Phase::kOver)) {
      return;
    }
    std::optional<wire::UpstreamHeaders> maybe_headers;
    for (wire::Event& each : held_) {
      if (auto* headers = std::get_if<wire::UpstreamHeaders>(&each)) {
        maybe_headers = std::move(*headers);
      }
    }
    const FailureReading reading = Read(failed->error, /*reached=*/replica_.driver().Load().ready);
    Leave(reading.verdict, &failed->error);
    request_->OnFailed(std::move(failed->error), reading, std::move(maybe_headers));
    return;
  }
  if (KeepsBack(event)) {
    held_bytes_ += HeldBytes(event);
    held_.push_back(std::move(event));
    return;
  }
  if (MoveOn(Phase::kPassed)) {
    passed_ = true;
    if (answer_ != nullptr) {
      request_->StayWith(answer_->artifact());
      resumable_.store(true);
    } else {
      request_->ForgetPrepared();
    }
    PassOnHeld();
    OnPassedEvent(std::move(event));
  }
}

bool Attempt::MoveOn(Phase to) {
  Phase from = Phase::kHeld;
  return phase_.compare_exchange_strong(from, to);
}

void Attempt::PassOnHeld() {
  if (in_batch_) {
    batch_told_ = true;
    sink_.BeginBatch();
  }
  for (wire::Event& event : std::exchange(held_, {})) {
    OnPassedEvent(std::move(event));
  }
}

void Attempt::OnPassedEvent(wire::Event&& event) {
  if (answer_ != nullptr) {
    if (auto* failed = std::get_if<wire::Failed>(&event);
        failed != nullptr && GoesOnElsewhere(*failed)) {
      return;
    }
    Remember(event);
  }
  if (!content_seen_ && IsContent(event)) {
    NoteContent();
  }
  if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
    usage_ = usage->usage;
  } else if (const auto* failed = std::get_if<wire::Failed>(&event)) {
    OnLast(&failed->error);
  } else if (std::holds_alternative<wire::Done>(event)) {
    OnLast(nullptr);
  }
  sink_.OnEvent(std::move(event));
}

void Attempt::Remember(const wire::Event& event) {
  if (!answer_->Note(event)) {
    resumable_.store(false);
    answer_.reset();
    request_->ForgetPrepared();
  }
}

// True: another attempt has it, or it was told how it ended.
bool Attempt::GoesOnElsewhere(wire::Failed& failed) {
  if (abandoned_.load() && failed.error.code == Code::kCancelled && !request_->cancelled()) {
    failed.error = {Code::kUnavailable, "upstream " + replica_.name() + " went away"};
  }
  const FailureReading reading = Read(failed.error, /*reached=*/replica_.driver().Load().ready);
  resumable_.store(false);
  Leave(reading.verdict, &failed.error, Believable(usage_));
  failed.error = request_->ToTell(failed.error, reading);
  if (!answer_->begun() || !reading.curable) {
    return false;
  }
  if (std::exchange(batch_told_, false)) {
    sink_.EndBatch();  // what follows comes from another thread
  }
  return request_->GoOn(answer_, failed.error);
}

void Attempt::NoteContent() {
  content_seen_ = true;
  replica_.TakeFirst(ticket_, dispatcher_.clock().NowNs(),
                     /*streamed=*/request_->turn().stream);
  if (in_backlog_.exchange(false)) {
    replica_.ReleaseBacklog(dispatcher_.clock().NowNs(), uncached_tokens_);
  }
}

// Counted before the client hears of it, so that one that has its answer finds nothing open.
void Attempt::OnLast(const Error* maybe_error) {
  usage_ = Believable(usage_);
  replica_.TakeUsage(usage_);
  Leave(maybe_error == nullptr
            ? Verdict::kAnswered
            : Read(*maybe_error, /*reached=*/replica_.driver().Load().ready).verdict,
        maybe_error, usage_);
  dispatcher_.Ended(*request_, usage_);
}

// An engine's figures steer what others get: none is beyond what fits in its context.
wire::Usage Attempt::Believable(wire::Usage usage) const {
  const int64_t context = replica_.driver().capabilities()->context_length;
  if (context > 0) {
    const auto most = static_cast<int32_t>(std::min<int64_t>(context * sequences_, INT32_MAX));
    usage.prompt_tokens = std::min(usage.prompt_tokens, most);
    usage.completion_tokens = std::min(usage.completion_tokens, most);
  }
  usage.cached_tokens = std::min(usage.cached_tokens, usage.prompt_tokens);
  return usage;
}

FailureReading Attempt::Read(const Error& error, bool reached) const {
  const std::string& model = request_->model();
  const std::optional<int64_t>& deadline_ns = request_->deadline_ns();
  const int64_t now_ns = dispatcher_.clock().NowNs();
  return ReadFailure(error,
                     {.reached = reached,
                      .lists_model = !model.empty() && replica_.ListsModel(model),
                      .deadline_over = deadline_ns && now_ns >= *deadline_ns,
                      .kept_silent = in_backlog_.load() &&
                                     2 * (now_ns - began_ns_) >= now_ns - request_->admitted_ns()});
}

void Attempt::Leave(Verdict verdict, const Error* maybe_error, const wire::Usage& usage) {
  if (left_.exchange(true)) {
    return;
  }
  const bool silent = in_backlog_.exchange(false);
  if (silent) {
    replica_.ReleaseBacklog(dispatcher_.clock().NowNs(), uncached_tokens_);
  }
  const int64_t now_ns = dispatcher_.clock().NowNs();
  replica_.End(ticket_, verdict, now_ns, maybe_error);
  const std::optional<int64_t>& deadline_ns = request_->deadline_ns();
  const bool served = maybe_error == nullptr ? verdict == Verdict::kAnswered
                                             : deadline_ns && now_ns >= *deadline_ns;
  if (served && request_->resumed() == 0) {  // else it was a part of an answer
    dispatcher_.NoteService(now_ns - began_ns_);
  }
  if (silent && verdict != Verdict::kAnswered) {
    dispatcher_.OnNothingComputed(replica_, *request_, cached_tokens_);
  }
  dispatcher_.OnLeft(replica_, *request_, cached_tokens_, usage);
}

FailureReading Attempt::Refused(const Error& error) {
  MoveOn(Phase::kOver);
  const FailureReading reading = Read(error, /*reached=*/true);
  Leave(reading.verdict, &error);
  if (answer_ != nullptr && passed_) {
    request_->ReturnAnswer(std::move(answer_));
  }
  return reading;
}

bool Attempt::TakeAway(const Error& why) {
  if (!MoveOn(Phase::kOver)) {
    return false;
  }
  Leave(Verdict::kFailed, &why);
  return true;
}

void Attempt::BeginBatch() noexcept {
  in_batch_ = true;
  if (passed_) {
    batch_told_ = true;
    sink_.BeginBatch();
  }
}

void Attempt::EndBatch() noexcept {
  in_batch_ = false;
  if (std::exchange(batch_told_, false)) {
    sink_.EndBatch();
  }
}

void Attempt::AwaitRoom(std::function<void()> on_room) {
  if (passed_ || held()) {
    sink_.AwaitRoom(std::move(on_room));
  }
}

}  // namespace fak::fleet

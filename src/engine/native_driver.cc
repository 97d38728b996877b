#include "engine/native_driver.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "base/version.h"

namespace fak::engine {

using driver::EvictGuarantee;
using driver::EvictScope;
using metrics::Counter;
using metrics::Gauge;
using metrics::Latency;

namespace {

double Seconds(int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

// Whether what is under that salt is meant, or a part of it.
bool Means(const driver::EvictRequest& request, std::string_view salt) {
  switch (request.scope) {
    case EvictScope::kAll: return true;
    case EvictScope::kTenant: return salt.starts_with(request.cache_salt);
    case EvictScope::kSalt:
    case EvictScope::kPrefix: return salt == request.cache_salt;
  }
  return false;
}

// A client may keep the numbers of a document as doubles, which must hold what it is told.
uint64_t DrawSeed(RandomSource& random) {
  constexpr int kBitsOfADouble = 53;
  return random.Next64() >> (64 - kBitsOfADouble);
}

}  // namespace

NativeDriver::NativeDriver(LoadedEngine engine, NativeDriverOptions options, const Clock& clock,
                           RandomSource& random, std::shared_ptr<metrics::Emitter> maybe_metrics)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      clock_(clock),
      random_(random),
      maybe_metrics_(std::move(maybe_metrics)),
      pool_(engine_.plan.blocks),
      tree_(pool_, engine_.options.scheduler.block_size),
      scheduler_(engine_.options.scheduler, pool_, tree_, clock,
                 [this](kv::BlockId from, kv::BlockId to, uint32_t positions) {
                   engine_.backend->CopyBlock(from, to, positions);
                 }) {
  auto capabilities = std::make_shared<driver::Capabilities>();
  capabilities->engine = "fak";
  capabilities->version = kVersion;
  const tensor::BackendInfo info = engine_.backend->info();
  const std::string threads =
      info.threads == 0 ? "" : ", " + std::to_string(info.threads) + " threads";
  capabilities->about = info.name + " " + info.isa + threads + ", context " +
                        std::to_string(engine_.plan.context) + ", KV " +
                        FormatBytes(engine_.plan.kv);
  capabilities->models = options_.served_names;
  capabilities->artifact = engine_.artifact;
  capabilities->context_length = static_cast<int32_t>(engine_.plan.context);
  capabilities->native = true;
  capabilities->exact = true;
  capabilities->token_ids = true;
  capabilities->cancel_stops_engine = true;
  capabilities->honours_cache_salt = true;
  capabilities->honours_priority = true;
  capabilities_ = std::move(capabilities);
  Publish();
}

NativeDriver::~NativeDriver() {
  Stop();
}

driver::LoadReport NativeDriver::Load() const {
  const std::lock_guard lock(mutex_);
  driver::LoadReport report = load_;
  report.ready = !draining_ && !stopping_;
  report.why_not = report.ready ? "" : draining_ ? "draining" : "stopped";
  return report;
}

Status NativeDriver::Admit(std::shared_ptr<const driver::Prepared> prepared,
                           std::shared_ptr<driver::EventSink> sink) {
  const size_t sequences =
      prepared->prompts.size() * static_cast<size_t>(std::max(prepared->turn->n, 1));
  if (sequences > options_.sequences_max) {
    return Fail(Code::kInvalidArgument,
                std::to_string(sequences) + " choices of one request, at most " +
                    std::to_string(options_.sequences_max) + " are taken",
                "n");
  }
  if (const auto& so_far = prepared->turn->answer_so_far;
      so_far && !so_far->artifact.empty() && so_far->artifact != engine_.artifact) {
    return Fail(Code::kInvalidArgument,
                "continue_answer.artifact: the answer was begun by another model, or by one that "
                "is served otherwise, than this (GET /version)",
                "continue_answer.artifact");
  }
  TRY_ASSIGN(std::unique_ptr<Request> request,
             MakeRequest(std::move(prepared), std::move(sink), *engine_.card, engine_.plan.context,
                         DrawSeed(random_)));
  const std::lock_guard lock(mutex_);
  if (draining_ || stopping_) {
    return Fail(Code::kUnavailable, "the engine is shutting down");
  }
  if (open_sequences_ + sequences > options_.sequences_max) {
    return Fail(Error{Code::kResourceExhausted,
                      std::to_string(open_sequences_) +
                          " sequences are queued already, of at most " +
                          std::to_string(options_.sequences_max),
                      "", 0, 1});
  }
  ++open_requests_;
  open_sequences_ += sequences;
  inbox_.emplace_back(std::move(request));
  wake_.notify_one();
  return {};
}

void NativeDriver::Cancel(std::string_view request_id) {
  const std::lock_guard lock(mutex_);
  inbox_.emplace_back(CancelCommand{std::string(request_id)});
  wake_.notify_one();
}

void NativeDriver::Evict(driver::EvictRequest request,
                         std::function<void(std::vector<driver::EvictOutcome>)> done) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      inbox_.emplace_back(EvictCommand{std::move(request), std::move(done)});
      wake_.notify_one();
      return;
    }
  }
  done({{"native", Fail(Code::kUnavailable, "the engine is shutting down"), true}});
}

void NativeDriver::Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) {
  const std::lock_guard lock(mutex_);
  CHECK(!started_) << "KV events are subscribed to before the engine starts";
  on_kv_batch_ = std::move(on_batch);
  tree_.set_event_log(&kv_log_);
}

Status NativeDriver::Start() {
  const std::lock_guard lock(mutex_);
  if (!started_) {
    started_ = true;
    thread_ = std::thread([this] { Run(); });
  }
  return {};
}

void NativeDriver::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (inbox_.empty() && scheduler_.idle()) {
        wake_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
      }
      if (stopping_) {
        return;
      }
    }
    RunStep();
  }
}

void NativeDriver::Drain(std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    if (open_requests_ != 0) {
      drained_.push_back(std::move(done));
      return;
    }
  }
  done();
}

void NativeDriver::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  DrainInbox();
  for (auto& [id, request] : requests_) {
    FailRequest(*request, {Code::kUnavailable, "the engine is shutting down"}, false);
  }
  ForgetEnded();
}

const Request* NativeDriver::Find(std::string_view request_id) const {
  const auto found = requests_.find(std::string(request_id));
  return found == requests_.end() ? nullptr : found->second.get();
}

LoadedEngine NativeDriver::TakeEngine() {
  Stop();
  return std::move(engine_);
}

void NativeDriver::DrainInbox() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(inbox_);
  }
  for (Command& command : commands) {
    if (auto* request = std::get_if<std::unique_ptr<Request>>(&command)) {
      Accept(std::move(*request));
    } else if (const auto* cancel = std::get_if<CancelCommand>(&command)) {
      Handle(*cancel);
    } else {
      Handle(std::get<EvictCommand>(command));
    }
  }
}

void NativeDriver::Accept(std::unique_ptr<Request> request) {
  const std::string id = request->prepared->request_id;
  if (requests_.contains(id)) {
    request->sink->OnEvent(
        wire::Failed{{Code::kAlreadyExists, "request id " + id + " is in use already"}});
    Leave(request->choices.size());
    return;
  }
  const std::optional<wire::Finish> finished = request->finished;
  for (Choice& choice : request->choices) {
    choice.sequence.arrival = ++arrivals_;
    owners_.emplace(&choice.sequence, std::pair{request.get(), &choice});
    if (!finished) {
      scheduler_.Add(choice.sequence);
    }
  }
  next_deadline_ns_ =
      std::min(next_deadline_ns_, request->prepared->deadline_ns.value_or(INT64_MAX));
  Request& accepted = *requests_.emplace(id, std::move(request)).first->second;
  if (finished) {  // begun elsewhere, to its end: nothing is left to compute
    Choice& choice = accepted.choices.front();
    TellStarted(accepted, choice);
    EndChoice(accepted, choice, *finished);
  }
}

void NativeDriver::TellStarted(Request& request, const Choice& first) {
  request.started = true;
  const driver::Prepared& prepared = *request.prepared;
  int32_t prompt_tokens = 0;
  for (const driver::PreparedPrompt& prompt : prepared.prompts) {
    prompt_tokens += static_cast<int32_t>(prompt.tokens.size());
  }
  if (maybe_metrics_ != nullptr) {
    maybe_metrics_->Observe(Latency::kQueue, Seconds(clock_.NowNs() - prepared.arrival_ns));
  }
  request.sink->OnEvent(
      wire::Started{.seed = request.sampling.front().spec.seed,
                    .prompt_tokens = prompt_tokens,
                    .cached_tokens = static_cast<int32_t>(first.sequence.cached_tokens),
                    .said = std::move(request.said),
                    .said_tokens = request.said_tokens});
}

void NativeDriver::FailOverdue() {
  const int64_t now_ns = clock_.NowNs();
  if (now_ns < next_deadline_ns_) {
    return;
  }
  next_deadline_ns_ = INT64_MAX;
  for (const auto& [id, request] : requests_) {
    const int64_t deadline_ns = request->prepared->deadline_ns.value_or(INT64_MAX);
    if (deadline_ns <= now_ns) {
      FailRequest(*request, driver::DeadlineError(*request->prepared), true);
    } else {
      next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns);
    }
  }
  ForgetEnded();
}

void NativeDriver::Handle(const CancelCommand& command) {
  const auto found = requests_.find(command.request_id);
  if (found != requests_.end() && found->second->live > 0) {
    FailRequest(*found->second, {Code::kCancelled, "cancelled"}, true);
    ForgetEnded();  // the id may be used again by what follows in the inbox
  }
}

void NativeDriver::Handle(EvictCommand& command) {
  const driver::EvictRequest& request = command.request;
  driver::EvictReport report;
  report.guarantee = EvictGuarantee::kExact;
  // What runs now still has the span's KV; it must not bring it back when it ends.
  for (const auto& [sequence, owner] : owners_) {
    Sequence& running = owner.second->sequence;
    const bool holds =
        running.tokens.size() >= request.tokens.size() &&  // of no tokens, every sequence
        std::equal(request.tokens.begin(), request.tokens.end(), running.tokens.begin());
    running.uncached = running.uncached || (holds && Means(request, running.salt));
  }
  std::string left;
  if (request.scope == EvictScope::kPrefix) {
    const kv::PrefixTree::Pruned pruned = tree_.Prune(request.cache_salt, request.tokens);
    report.blocks = pruned.nodes;
    report.tokens_left = pruned.tokens_left;
    left = ", with the last token of the prefix and all that continues it; before them " +
           std::to_string(pruned.tokens_left) + " of its " + std::to_string(request.tokens.size()) +
           " tokens stay cached";
  } else if (request.scope == EvictScope::kAll) {
    report.blocks = tree_.Clear();
  } else {
    report.blocks =
        tree_.ClearSalts([&request](std::string_view salt) { return Means(request, salt); });
  }
  report.call = "pruned " + std::to_string(*report.blocks) + " blocks from the prefix cache" + left;
  command.done({{"native", std::move(report), true}});
}

// Lays the slices out as the back end wants them.
void NativeDriver::BuildStep(std::span<const Slice> slices) {
  tokens_.clear();
  rows_.clear();
  logit_rows_.clear();
  specs_.clear();
  planned_.clear();
  for (const Slice& slice : slices) {
    Sequence& sequence = *slice.sequence;
    const auto [request, choice] = owners_.at(&sequence);
    const auto first_row = static_cast<uint32_t>(tokens_.size());
    const auto begin = sequence.tokens.begin() + sequence.computed;
    tokens_.insert(tokens_.end(), begin, begin + slice.rows);
    rows_.push_back(
        {first_row, slice.rows, sequence.computed, sequence.blocks, sequence.state_slot});
    Planned planned{request, choice,         slice.rows, static_cast<uint32_t>(logit_rows_.size()),
                    0,       slice.samples()};
    for (uint32_t row = 0; row < slice.rows; ++row) {
      const uint32_t position = sequence.computed + row;
      // A preempted sequence doesn't score again what it scored before.
      const bool scores = sequence.score_prompt && position + 1 < sequence.prompt_tokens &&
                          position + 1 >= choice->prompt_logprobs.size();
      const bool samples = slice.samples() && row + 1 == slice.rows;
      if (!scores && !samples) {
        continue;
      }
      logit_rows_.push_back(first_row + row);
      tensor::SampleSpec& spec = specs_.emplace_back();
      if (scores) {
        spec.score_token = sequence.tokens[position + 1];
        spec.top_logprobs = request->sampling[static_cast<size_t>(choice->prompt)].prompt_logprobs;
      } else {
        spec = choice->sampler.Next(sequence.tokens.size());
      }
      ++planned.logits;
    }
    planned_.push_back(planned);
  }
}

bool NativeDriver::Step() {
  {
    const std::lock_guard lock(mutex_);
    if (started_) {
      return false;
    }
  }
  return RunStep();
}

bool NativeDriver::RunStep() {
  DrainInbox();
  FailOverdue();
  const std::span<const Slice> slices = scheduler_.Plan();
  if (!slices.empty()) {
    BuildStep(slices);
    const Status submitted = engine_.executable->Submit(
        {.tokens = tokens_, .sequences = rows_, .logit_rows = logit_rows_, .samples = specs_});
    Result<tensor::StepOutput> output = submitted
                                            ? engine_.executable->Wait()
                                            : Result<tensor::StepOutput>(Fail(submitted.error()));
    if (output) {
      Process(*output);
    } else {
      for (const Planned& planned : std::exchange(planned_, {})) {
        FailRequest(*planned.request, output.error(), false);
      }
    }
  }
  ForgetEnded();
  TellKvEvents();
  Publish();
  return !scheduler_.idle();
}

void NativeDriver::TellKvEvents() {
  if (on_kv_batch_ && !kv_log_.empty()) {
    wire::KvEventBatch batch;
    batch.sequence = kv_batches_++;
    batch.time_s = Seconds(clock_.WallNs());
    batch.events = kv_log_.Take();
    on_kv_batch_(batch);
  }
}

void NativeDriver::Observe() {
  observed_.clear();
  for (const Planned& planned : planned_) {
    if (!planned.choice->ended) {
      observed_.push_back({planned.request->prepared->request_id, &planned.choice->sequence,
                           planned.rows, planned.first_logit, planned.logits, planned.samples});
    }
  }
  options_.maybe_observer->OnStep(observed_);
}

void NativeDriver::Process(const tensor::StepOutput& output) {
  for (size_t i = 0; i < planned_.size(); ++i) {
    if (output.finite[i] == 0) {
      FailRequest(*planned_[i].request,
                  {Code::kInternal, "the model computed a value that is not finite"}, false);
    }
  }
  scheduler_.Commit();  // of the slices that are left
  if (options_.maybe_observer != nullptr) {
    Observe();
  }
  for (const Planned& planned : planned_) {
    Request& request = *planned.request;
    Choice& choice = *planned.choice;
    if (choice.ended) {
      continue;
    }
    if (!request.started) {
      TellStarted(request, choice);
    }
    const auto samples = output.samples.subspan(planned.first_logit, planned.logits);
    if (planned.logits > (planned.samples ? 1u : 0u)) {
      ScorePrompt(planned, samples);
    }
    if (planned.samples) {
      if (!std::exchange(choice.prompt_told, true)) {
        FinishPrompt(request, choice);
      }
      if (!choice.ended) {
        TakeSample(request, choice, samples.back());
      }
    }
  }
}

void NativeDriver::ScorePrompt(const Planned& planned,
                               std::span<const tensor::SampleResult> samples) {
  const size_t scored = samples.size() - (planned.samples ? 1 : 0);
  for (const tensor::SampleResult& sample : samples.first(scored)) {
    planned.choice->prompt_logprobs.push_back(LogprobsOf(sample, *engine_.card->tokenizer));
  }
}

// The whole prompt is computed: what is said of it goes out before the first token.
void NativeDriver::FinishPrompt(Request& request, Choice& choice) {
  const driver::PreparedPrompt& prompt =
      request.prepared->prompts[static_cast<size_t>(choice.prompt)];
  const bool answers = request.sampling[static_cast<size_t>(choice.prompt)].max_tokens > 0;
  if (request.echoes()) {
    // Only the first choice of a prompt scored it.
    const auto first =
        static_cast<size_t>(choice.prompt) * static_cast<size_t>(request.prepared->turn->n);
    std::string text =
        request.prepared->turn->echo ? choice.answer.EchoOf(prompt.text, answers) : "";
    request.sink->OnEvent(wire::PromptEcho{choice.index, std::move(text), prompt.tokens,
                                           request.choices[first].prompt_logprobs});
  }
  choice.sequence.score_prompt = false;  // done: if it is preempted, the cache may serve it
  if (maybe_metrics_ != nullptr) {
    const double tokens = choice.sequence.prompt_tokens;
    maybe_metrics_->Add(Counter::kPromptTokens, tokens);
    if (engine_.options.scheduler.enable_prefix_caching) {
      maybe_metrics_->Add(Counter::kPrefixQueries, tokens);
      maybe_metrics_->Add(Counter::kPrefixHits, choice.sequence.cached_tokens);
    }
  }
  if (!answers) {
    EndChoice(request, choice, {choice.index, wire::FinishReason::kLength, {}, {}});
  }
}

void NativeDriver::TakeSample(Request& request, Choice& choice,
                              const tensor::SampleResult& sample) {
  if (sample.token < 0) {
    FailRequest(
        request,
        {Code::kInvalidArgument, "no token may be drawn: every token is banned", "logit_bias"},
        true);
    return;
  }
  const int64_t now_ns = clock_.NowNs();
  if (maybe_metrics_ != nullptr) {
    maybe_metrics_->Add(Counter::kGenerationTokens, 1);
    if (choice.last_token_ns != 0) {
      maybe_metrics_->Observe(Latency::kInterToken, Seconds(now_ns - choice.last_token_ns));
    } else if (request.first_token_ns == 0) {
      maybe_metrics_->Observe(Latency::kTimeToFirstToken,
                              Seconds(now_ns - request.prepared->arrival_ns));
    }
  }
  request.first_token_ns = request.first_token_ns == 0 ? now_ns : request.first_token_ns;
  choice.last_token_ns = now_ns;
  choice.sequence.tokens.push_back(sample.token);
  choice.sampler.Append(sample.token);
  const auto length = static_cast<int32_t>(choice.sequence.tokens.size());
  Answer::Step step =
      choice.answer.Take(sample, static_cast<int32_t>(engine_.plan.context) - length);
  if (step.delta) {
    request.sink->OnEvent(std::move(*step.delta));
  }
  if (step.finish) {
    EndChoice(request, choice, std::move(*step.finish));
  }
}

void NativeDriver::EndChoice(Request& request, Choice& choice, wire::Finish finish) {
  choice.ended = true;
  scheduler_.Remove(choice.sequence, true);
  request.sink->OnEvent(std::move(finish));
  if (--request.live == 0) {
    EndRequest(request);
  }
}

void NativeDriver::EndRequest(Request& request) {
  wire::Usage usage;
  usage.cached_tokens = 0;
  for (const Choice& choice : request.choices) {
    usage.completion_tokens += choice.answer.tokens();
    if (choice.index % request.prepared->turn->n == 0) {
      usage.prompt_tokens += static_cast<int32_t>(choice.sequence.prompt_tokens);
      usage.cached_tokens += static_cast<int32_t>(choice.sequence.cached_tokens);
    }
  }
  if (maybe_metrics_ != nullptr) {
    const int64_t now_ns = clock_.NowNs();
    const int32_t generated = usage.completion_tokens - request.said_tokens;  // here
    metrics::RequestTimes times;
    times.end_to_end_s = Seconds(now_ns - request.prepared->arrival_ns);
    if (request.first_token_ns != 0) {
      times.first_token_s = Seconds(request.first_token_ns - request.prepared->arrival_ns);
    }
    if (request.choices.size() == 1) {
      times.tokens = generated;
    }
    if (times.tokens > 1) {
      times.per_token_s = Seconds(now_ns - request.first_token_ns) / (generated - 1);
      maybe_metrics_->Observe(Latency::kTimePerOutputToken, *times.per_token_s);
    }
    maybe_metrics_->Observe(metrics::Tokens::kPrompt, usage.prompt_tokens);
    maybe_metrics_->Observe(metrics::Tokens::kGeneration, generated);
    maybe_metrics_->Observe(Latency::kEndToEnd, times.end_to_end_s);
    maybe_metrics_->CountRequest("ok");
    maybe_metrics_->CountGoodput(times);
  }
  request.sink->OnEvent(wire::UsageReport{usage});
  request.sink->OnEvent(wire::Done{});
  ended_.push_back(&request);
}

void NativeDriver::FailRequest(Request& request, Error error, bool keep_kv) {
  if (request.live == 0) {
    return;
  }
  for (Choice& choice : request.choices) {
    choice.ended = true;
    scheduler_.Remove(choice.sequence, keep_kv);
  }
  request.live = 0;
  if (maybe_metrics_ != nullptr) {
    const bool cancelled = error.code == Code::kCancelled;
    maybe_metrics_->CountRequest(cancelled ? "cancelled" : "error");
    if (!cancelled) {
      maybe_metrics_->CountError(CodeName(error.code));
    }
  }
  request.sink->OnEvent(wire::Failed{std::move(error)});
  ended_.push_back(&request);
}

void NativeDriver::ForgetEnded() {
  for (Request* request : std::exchange(ended_, {})) {
    Forget(*request);
  }
}

void NativeDriver::Forget(Request& request) {
  for (const Choice& choice : request.choices) {
    owners_.erase(&choice.sequence);
  }
  const size_t sequences = request.choices.size();
  const std::string id = request.prepared->request_id;
  requests_.erase(id);
  Leave(sequences);
}

void NativeDriver::Leave(size_t sequences) {
  std::vector<std::function<void()>> drained;
  {
    const std::lock_guard lock(mutex_);
    open_sequences_ -= sequences;
    if (--open_requests_ == 0) {
      drained.swap(drained_);
    }
  }
  for (const std::function<void()>& done : drained) {
    done();
  }
}

void NativeDriver::Publish() {
  driver::LoadReport report;
  report.running = static_cast<int32_t>(scheduler_.running());
  report.waiting = static_cast<int32_t>(scheduler_.waiting());
  report.backlog_tokens = static_cast<int64_t>(scheduler_.backlog_tokens());
  report.kv_blocks_total = pool_.total();
  report.kv_blocks_free = pool_.free() + pool_.cached_only();
  report.kv_usage = 1.0 - static_cast<double>(*report.kv_blocks_free) / pool_.total();
  if (maybe_metrics_ != nullptr) {
    maybe_metrics_->Set(Gauge::kRunning, *report.running);
    maybe_metrics_->Set(Gauge::kWaiting, *report.waiting);
    maybe_metrics_->Set(Gauge::kKvUsage, *report.kv_usage);
    maybe_metrics_->Set(Gauge::kEngineUp, 1);
    const uint64_t preemptions = scheduler_.preemptions();
    if (preemptions != preemptions_seen_) {
      maybe_metrics_->Add(
          Counter::kPreemptions,
          static_cast<double>(preemptions - std::exchange(preemptions_seen_, preemptions)));
    }
  }
  const std::lock_guard lock(mutex_);
  load_ = std::move(report);
}

}  // namespace fak::engine

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hot_lines.h"
#include "base/json.h"
#include "base/result.h"
#include "driver/prepared.h"
#include "text/model_card.h"
#include "wire/event.h"
#include "wire/kv_event.h"

// The keystone: what the gateway, the fleet and the bench know of an engine, whether it is ours in
// this process or somebody else's behind a URL. One EngineDriver answers for one replica of one
// engine. Interfaces only.
namespace fak::driver {

// What a driver can do; what is false here is asked of nobody and made up by nobody.
struct Capabilities {
  std::string engine;   // "fak", "vllm", "openai" ...
  std::string version;  // of the engine; empty: not known
  std::string about;    // how it runs, for a person: "cpu avx2, 2 threads ..."; empty: not known
  std::vector<std::string> models;
  // What its answers hang on (model, template, context, numerics), by an identity of the engine's
  // own kind: two of one engine with the same answer alike. Empty: not known.
  std::string artifact;
  int32_t context_length = 0;  // 0: not known
  bool native = false;         // takes tokens, emits neutral events only
  bool exact = false;          // same bits whatever the path; evict may be exact
  bool tool_calls = false;     // emits ToolCallDelta itself; else the gateway's stage parses text
  bool reasoning = false;      // emits ReasoningDelta itself
  bool grammars = false;       // honours Turn::grammar
  bool images = false;
  bool embeddings = false;
  bool token_ids = false;  // TextDelta::tokens is filled
  // Goes on with an answer after any of its tokens, also those whose text wasn't sent yet.
  bool continues_exactly = false;
  bool cancel_stops_engine = false;
  bool honours_cache_salt = false;
  bool honours_priority = false;
  bool anthropic_wire = false;  // takes /v1/messages documents as they are
  bool responses_wire = false;
  bool generate_wire = false;  // takes SGLang's own /generate
  bool template_wire = false;  // takes llama.cpp's own /apply-template
};

// A snapshot for routing and metrics; cheap to take, from any thread. Absent is not 0.
struct LoadReport {
  // Of a ridden engine the figures are its own, as old as the last scrape, other people's requests
  // included; only in_flight, our requests that are open there, is of this moment.
  std::optional<int32_t> in_flight;
  std::optional<int32_t> running;
  std::optional<int32_t> waiting;
  std::optional<int64_t> backlog_tokens;  // prompt tokens admitted and not yet computed
  std::optional<double> kv_usage;         // 0 to 1
  std::optional<uint64_t> kv_blocks_total;
  std::optional<uint64_t> kv_blocks_free;
  std::optional<double> prefill_tokens_per_s;  // recent
  std::optional<double> decode_tokens_per_s;
  bool ready = false;   // would answer a request now
  std::string why_not;  // when not ready
};

// Of one of several workers that a driver stands for.
struct WorkerLoad {
  std::string worker;
  std::string engine;  // empty: not known yet
  LoadReport load;
};

// Where a request went.
struct Placement {
  std::string_view worker;      // by its name in logs and metrics
  std::string_view why = {};    // for a log: who it was chosen among; empty: there was no choice
  int attempt = 1;              // 2 and on: others had it before, and failed
  int resumed = 0;              // how often the answer goes on after what another one began
  std::string_view model = {};  // that it is asked for there, where the name meant another one
};

// Receives one request's events. Calls come one at a time, in order, from a thread of the driver;
// they must return quickly and never block (the native engine's batch waits for them). The sink
// decides what to do with a slow reader: it may Cancel the request.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // May take the event's parts: the caller has no more use of it.
  virtual void OnEvent(wire::Event&& event) noexcept = 0;
  // What is made of the events from here to EndBatch(), or to the last event, may leave together:
  // no other will come before that. For drivers that know.
  virtual void BeginBatch() noexcept {}
  virtual void EndBatch() noexcept {}
  // Adds what the next event of a stream will touch, here and in what stands behind. For drivers of
  // many streams, on the thread of the events.
  virtual void ListHot(HotLines& lines) const noexcept { (void)lines; }
  // Which of several engines takes the request: before any event of it, on the thread of Admit(),
  // and again, on a thread of the driver, when the request goes to another one. Not called by an
  // engine that is the only one there can be.
  virtual void OnPlaced(const Placement& placement) { (void)placement; }
  // For a driver that can hold its engine back, from the thread of its events. `on_room` is called
  // once, from any thread, when the reader has taken most of what came; soon, where nothing is kept
  // for it. Dropped uncalled when the reader is gone: a Cancel() follows.
  virtual void AwaitRoom(std::function<void()> on_room) { on_room(); }
};

enum class EvictScope : uint8_t {
  kAll,     // whoever's
  kTenant,  // what is under any salt that begins with cache_salt: a tenant's own choice of salts
  kSalt,    // all that is under cache_salt
  kPrefix,  // one path there
};
enum class EvictGuarantee : uint8_t { kNone, kWholePrefix, kExact };

struct EvictRequest {
  EvictScope scope = EvictScope::kAll;
  std::vector<int32_t> tokens;  // kPrefix: the path whose branch goes; empty: not known here
  std::string cache_salt;       // with the tenant folded in; of kTenant, the tenant's part alone
  EvictGuarantee demanded = EvictGuarantee::kNone;
  // The caller's own body, for an engine that takes the same call. Null: there is none.
  std::shared_ptr<const Json> maybe_document = nullptr;
  // As clients name it: only the caches that serve it are meant; empty: all.
  std::string model = {};
};

struct EvictReport {
  EvictGuarantee guarantee = EvictGuarantee::kNone;
  // What was done, for a person: "pruned 12 blocks", "POST /reset_prefix_cache".
  std::string call = {};
  std::optional<uint64_t> blocks = {};  // that went; absent where nobody counted
  // Of the path of kPrefix: its first tokens that are cached still, in blocks that other prompts
  // may share. Absent where nobody looked.
  std::optional<uint64_t> tokens_left = {};
};

// What became of it at one worker.
struct EvictOutcome {
  std::string worker;
  Result<EvictReport> report;
  bool honours_cache_salt = false;  // else its cache is one for all tenants
};

// Optional side of a driver. kUnsupported when the demanded guarantee can't be met: nothing is
// done then. `done` is called once, on a thread of the driver or of the caller, with an outcome for
// each worker that the driver stands for and that may serve the model: with none, where that is
// nobody's.
class CacheControl {
 public:
  virtual ~CacheControl() = default;
  virtual void Evict(EvictRequest request, std::function<void(std::vector<EvictOutcome>)> done) = 0;
};

struct SleepRequest {
  bool wake = false;   // else: sleep
  int32_t level = 1;   // of sleep: 1 keeps the weights in the machine's memory, 2 drops them
  std::string worker;  // which; empty: all that the driver stands for
};

// What became of it at one worker.
struct SleepOutcome {
  std::string worker;
  Result<std::string> call;  // what was done, for a person: "POST /sleep?level=1"
};

// Optional: an engine that gives its device memory back while nobody needs it. `done` is called
// once, on a thread of the driver or of the caller, with an outcome for each worker that was meant;
// kUnsupported at those that can't. Asleep it isn't ready.
class SleepControl {
 public:
  virtual ~SleepControl() = default;
  virtual void SetAsleep(SleepRequest request,
                         std::function<void(std::vector<SleepOutcome>)> done) = 0;
};

// A slot is a place for a sequence and its cache, in engines that have a fixed number of them.
struct SlotRequest {
  enum class Action : uint8_t { kSave, kRestore, kErase };
  Action action = Action::kSave;
  int32_t slot = 0;
  std::string file;    // of save and restore: a name in the engine's own folder, never a path
  std::string worker;  // which; empty: all that the driver stands for
};

struct SlotReport {
  std::string call;                // what was done, for a person: "POST /slots/0?action=save"
  std::optional<uint64_t> tokens;  // saved, restored or erased, where the engine says
};

// What became of it at one worker.
struct SlotOutcome {
  std::string worker;
  Result<SlotReport> report;
};

// Optional: an engine that writes the cache of a slot to a file and reads it back. `done` as of
// SleepControl.
class SlotControl {
 public:
  virtual ~SlotControl() = default;
  virtual void ActOnSlot(SlotRequest request,
                         std::function<void(std::vector<SlotOutcome>)> done) = 0;
};

// Optional: an engine that tokenises for us.
class RemoteTokenizer {
 public:
  virtual ~RemoteTokenizer() = default;
  // model: as the client named it; empty: the only one.
  virtual void Tokenize(std::string model, std::string text,
                        std::function<void(Result<std::vector<int32_t>>)> done) = 0;
};

// Optional: an engine that tells what its cache holds.
class KvEventSource {
 public:
  virtual ~KvEventSource() = default;
  // Called with every batch, in order, on a thread of the driver; must not block. A batch whose
  // generation is higher than the one before voids all that was said before it; later batches of
  // a lower one don't come. Before the driver is started: what happened earlier isn't told.
  virtual void Subscribe(std::function<void(const wire::KvEventBatch&)> on_batch) = 0;
};

// How an engine wants to be asked for one token.
struct GenerationProbing {
  int every_ms = 0;  // where nothing else shows that it answers; 0: never
  // It takes up what comes while it has others to answer. Else what it says while a request of ours
  // is open there tells nothing: it may stand in line behind that.
  bool beside_requests = false;
};

// Optional: an engine that may be asked for one token, which shows what its own health check can't:
// that it answers requests.
class GenerationProbe {
 public:
  virtual ~GenerationProbe() = default;
  // Any thread.
  virtual GenerationProbing generation_probing() const = 0;
  // Asks, outside of all that is counted or limited of requests. extra_ms: for what it has to do
  // before, beyond its usual time-out. `done` is called once, on a thread of the driver or of the
  // caller: Ok is content of a real 2xx, errors are those that a request would have failed with.
  // Any thread; never blocks on the engine.
  virtual void ProbeGeneration(int extra_ms, std::function<void(Status)> done) = 0;
};

class EngineDriver {
 public:
  virtual ~EngineDriver() = default;

  // Any thread. Stable between calls unless the driver says otherwise (an upstream restarted).
  virtual std::shared_ptr<const Capabilities> capabilities() const = 0;
  virtual LoadReport Load() const = 0;
  // The same by worker, where the driver knows them by names. Any thread.
  virtual std::vector<WorkerLoad> WorkerLoads() const { return {}; }

  // Takes a request. On success events follow on `sink` until Done or Failed, which is
  // kDeadlineExceeded when the request's deadline came first; on error nothing follows. Errors:
  // kContextTooLong (with the numbers), kInvalidArgument, kUnsupported (naming the field),
  // kResourceExhausted (queue full), kUnavailable (draining, not started). Any thread; never blocks
  // on the engine.
  [[nodiscard]] virtual Status Admit(std::shared_ptr<const Prepared> prepared,
                                     std::shared_ptr<EventSink> sink) = 0;

  // Whether an answer to this that broke off elsewhere, at an engine of the same artifact, can go
  // on here (Prepared::maybe_continuation), and tells its token ids for that when it begins here
  // (Prepared::for_resumption). Any thread.
  virtual bool CanContinue(const Prepared& prepared) const {
    (void)prepared;
    return false;
  }

  // The client is gone or lost interest. Takes effect within one step (native: KV blocks are free
  // then; ridden: the upstream connection is closed). The sink gets Failed{kCancelled} if it had
  // not ended. Unknown ids are ignored. Any thread.
  virtual void Cancel(std::string_view request_id) = 0;

  // Runs one scheduler step on the calling thread and returns whether work is left. Only for a
  // driver that was not started (tests, the bench in process); others return false.
  virtual bool Step() { return false; }
  // Starts the driver's own threads. Idempotent.
  [[nodiscard]] virtual Status Start() = 0;
  // Stops admitting at once; `done` is called when the last request has ended. Idempotent.
  virtual void Drain(std::function<void()> done) = 0;
  // Ends everything: open requests get Failed{kUnavailable}. Joins the driver's threads.
  virtual void Stop() = 0;

  // What turns for it are prepared with; null: it takes them as text. Any thread.
  virtual std::shared_ptr<const text::ModelCard> maybe_card() const { return nullptr; }
  virtual CacheControl* maybe_cache_control() { return nullptr; }
  virtual SleepControl* maybe_sleep_control() { return nullptr; }
  virtual SlotControl* maybe_slot_control() { return nullptr; }
  virtual RemoteTokenizer* maybe_tokenizer() { return nullptr; }
  virtual KvEventSource* maybe_kv_events() { return nullptr; }
  virtual GenerationProbe* maybe_generation_probe() { return nullptr; }
};

// One replica: everything that a DriverFactory needs to make a driver for it.
struct ReplicaSpec {
  std::string name = {};
  std::string engine = {};   // "native", "auto", "openai", "vllm" ...
  std::string url = {};      // ridden
  std::string model = {};    // native: a reference; ridden: the model to ask for, empty = as asked
  std::string api_key = {};  // never logged
  // Ridden: where the engine shows its metrics when not at /metrics of its URL, its own first, then
  // those of workers behind it. They get no key.
  std::vector<std::string> metrics_urls = {};
  Json options = {};  // what only some engines know, by name; null when none
  // For whoever shares requests out among replicas.
  double weight = 1;
  int32_t max_concurrency = 0;  // requests open there at once; 0: as many as come
};

// A max_concurrency that whoever shares requests out finds out himself.
inline constexpr int32_t kLearnedConcurrency = -1;

// The engine of a replica that is served in this process.
inline constexpr std::string_view kNativeEngine = "native";

}  // namespace fak::driver

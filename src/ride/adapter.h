#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "driver/engine_driver.h"
#include "wire/document_edit.h"
#include "wire/http_headers.h"
#include "wire/turn.h"

// What differs between the engines that we ride: data where data will do, a few functions where
// not. One constant Adapter an engine, in a file of its own (vllm.cc ...); one driver
// (upstream_driver.h) rides them all, one prober (probe.h) tells them apart. To add an engine: its
// file, its line in adapter.cc, its column in docs/engines.md.
//
// Everything here is pure: no adapter holds state, makes a connection or knows a thread.
namespace fak::ride {

// A request of our own to an engine: probes, resets, tokenizing. The driver adds origin, key and
// timeouts. The path is from the root of the engine's URL.
struct Call {
  std::string method = "GET";
  std::string path;
  std::string body = {};  // JSON; empty: none
  wire::HttpHeaders headers = {};
};

// What came back. status 0: nothing did, and `body` says why.
struct Reply {
  int status = 0;
  wire::HttpHeaders headers = {};
  std::string body = {};
  Json document = {};      // of the body; null when it's none
  bool unreached = false;  // no connection could be made: nobody is there, as far as we can see
  bool unsent = false;  // we had no descriptor or connection for it: says nothing of the upstream
};

// Replies by what was asked ("GET /version"). At() of what was never asked is an empty Reply.
class Replies {
 public:
  void Add(const Call& call, Reply reply) {
    replies_[call.method + " " + call.path] = std::move(reply);
  }
  // Those that aren't here yet.
  void AddAll(Replies others) { replies_.merge(others.replies_); }
  const Reply& At(const std::string& asked) const;
  bool Has(const std::string& asked) const { return replies_.contains(asked); }

 private:
  std::map<std::string, Reply> replies_;
};

// What an engine may or may not have, as `fak probe` shows it.
enum class Signal : uint8_t {
  kMetrics,
  kKvEvents,
  kCacheReset,
  kSleep,
  kTokenizer,
  kAbort,
  kMessages,   // Anthropic's surface
  kResponses,  // OpenAI's
  kEmbeddings,
  kSlots,     // of llama.cpp: can be saved, restored and erased
  kTemplate,  // llama.cpp's /apply-template
};
inline constexpr size_t kSignals = 11;

struct Adapter;

// What a probe found behind a URL. Plain value; what drivers know of their engine.
struct Endpoint {
  // One row: what was asked, what was seen, and what follows.
  struct Finding {
    Signal signal = Signal::kMetrics;
    bool has = false;
    bool told = true;   // false: it can't be told, and fak goes by `has`
    std::string asked;  // "GET /metrics", or "-" where no request can show it
    std::string seen;   // "200, 42 families of vllm:"
    std::string means;  // what fak does with it, or won't be able to do
  };
  const Adapter* adapter = nullptr;
  std::string why;  // the engine was told from
  std::string version;
  std::string artifact;  // driver::Capabilities::artifact
  std::vector<std::string> models;
  std::string why_no_models;   // its list of them was refused (401, 403)
  int32_t context_length = 0;  // 0: it doesn't say
  int32_t slots = 0;           // llama.cpp
  // What showed them: "GET /version". Empty where nothing did.
  std::string version_asked;
  std::string models_asked;
  std::string context_asked;
  std::vector<Finding> findings;

  bool Has(Signal signal) const;
};

// One thing that a probe asks, once it knows the engine. `holds` reads the reply; null: it has the
// signal unless it says 404, 405 or 501 (a body that asks for nothing is answered by 400).
struct Check {
  Signal signal;
  std::string_view method;  // empty: no request shows it, `always` is what is known
  std::string_view path;
  std::string_view body = {};
  bool (*holds)(const Reply&) = nullptr;
  bool always = false;
  bool served_without = false;  // the path is, whether or not a model there has it
};

struct Route {
  wire::Surface surface;
  std::string_view path;
};

enum class KeyHeader : uint8_t { kBearer, kXApiKey };

struct Adapter {
  std::string_view engine;  // as in --upstream ENGINE+URL, in metrics and in the fleet file

  // --- Requests. All that clients can reach of the engine; nothing else is ever asked for them.
  std::span<const Route> routes;
  // Members of the client's document that steer the engine from inside (which worker, whose cache,
  // what to connect to, what code to load): removed unless the operator allows them by name.
  std::span<const std::string_view> owned_fields = {};
  // The client's headers that go on. All others stay here, so none can route.
  std::span<const std::string_view> passed_headers = {};
  std::span<const std::pair<std::string_view, std::string_view>> default_headers = {};
  KeyHeader key_header = KeyHeader::kBearer;
  std::string_view default_model = {};  // asked for whatever the client named; empty: as named
  std::string_view id_field = {};       // takes an id that we choose, to be aborted by
  std::string_view rank_header = {};    // takes the data-parallel rank of the replica
  bool asks_usage = true;  // stream_options.include_usage makes it report tokens in a stream
  // It closes the connection after a stream and doesn't say so: the next request on it would be
  // lost, whichever is faster.
  bool closes_after_stream = false;

  // --- Answers.
  std::span<const std::string_view> kept_headers = {};  // that the client gets: rate limits
  std::string_view served_by_header = {};  // names an endpoint behind its router; for logs
  std::string_view dropped_header = {};    // says why it refused a request
  // Corrects what upstream_error.h made of a status and a body, for what only this engine says.
  void (*refine)(int status, std::string_view body, Error& error) = nullptr;

  // --- What it can do.
  bool tool_calls = true;
  bool reasoning = true;
  bool grammars = true;
  bool images = true;
  bool token_ids = false;  // gives them when asked to (return_token_ids)
  // Whether an answer to that, broken off, can go on here from its token ids; with a continuation,
  // that one. Null: never.
  bool (*continues)(const driver::Prepared&) = nullptr;
  // The edits that make it go on.
  void (*continue_answer)(const driver::Prepared&, std::vector<wire::MemberEdit>&) = nullptr;
  // It goes on as if it had generated what was said itself. Else that is a part of its prompt: told
  // up to the last text that was sent, and so counted in its usage.
  bool continues_exactly = false;
  std::string_view unasked_token_ids = {};  // what stands for them in a chunk; empty: nothing
  bool takes_cache_salt = false;    // the document's cache_salt is part of what it keys caches by
  bool honours_cache_salt = false;  // and is known to keep all of them apart
  bool honours_priority = false;
  bool evicts_exactly = false;       // or says itself that it can't: the demand goes on to it
  bool publishes_kv_events = false;  // in a form that kv_event_feed.h reads, when told to
  bool cancel_stops_engine = true;   // closing the connection ends the work, streamed or not

  // --- Health. 200 and `ready` (null: nothing more) mean that it would answer.
  std::string_view health_path = "/v1/models";
  bool (*ready)(const Reply&) = nullptr;
  // Its operator may put it to sleep: requests then wait, and health_path says 200 as ever. Asked
  // with it, of engines that have kCacheReset: vLLM serves both under one switch.
  std::string_view sleep_path = {};
  bool (*sleeps)(const Reply&) = nullptr;
  int probe_every_ms = 5000;
  // Its tokens cost nobody money: it is asked for one now and then though nobody said so.
  bool probes_generation = false;
  bool batches = false;       // takes up what comes while it has others to answer
  bool loads_models = false;  // when it is asked for one that it lists

  // --- What it is. `recognise` says from the replies to kIdentifyCalls why this is such an
  // engine, or nothing. `measured`: whether the real server was, so that what no request shows is
  // known from that, and not by its documents alone; null: it wasn't. `describe` fills what
  // /v1/models didn't say.
  std::string (*recognise)(const Replies&);
  bool (*measured)(const Replies&) = nullptr;
  std::span<const Check> checks = {};
  std::string_view describe_path = {};  // one more GET that describe() reads
  void (*describe)(const Replies&, Endpoint&) = nullptr;

  // --- Calls of ours. Null: the engine has no such thing.
  std::optional<Call> (*abort)(const std::string& id) = nullptr;
  // The calls are made in order; the first that fails ends it.
  Result<std::vector<Call>> (*evict)(const Endpoint&, const driver::EvictRequest&) = nullptr;
  // What a reply to one of these calls says; without EvictReport::call.
  Result<driver::EvictReport> (*read_evict)(const Reply&) = nullptr;
  // Answered by 200 once it is done. Both or none.
  Call (*put_to_sleep)(int32_t level) = nullptr;
  Call (*wake)() = nullptr;
  // Answered by 200, with the number of tokens under one of these names.
  Result<Call> (*act_on_slot)(const Endpoint&, const driver::SlotRequest&) = nullptr;
  std::span<const std::string_view> slot_counts = {};
  Call (*tokenize)(const std::string& text) = nullptr;  // its reply has "tokens": [..]
};

// What tells engines apart; asked of an endpoint in this order when its engine is "auto".
std::span<const Call> IdentifyCalls();

// Every engine, most telling first.
std::span<const Adapter* const> Adapters();
// Null for a name that is none.
const Adapter* FindAdapter(std::string_view engine);
std::string AdapterNames();  // "vllm, sglang, ..."

std::string_view SignalName(Signal signal);

extern const Adapter kVllm;
extern const Adapter kSglang;
extern const Adapter kLlamaCpp;
extern const Adapter kDynamo;
extern const Adapter kLlmd;
extern const Adapter kMlx;
extern const Adapter kFak;
extern const Adapter kOpenAi;
extern const Adapter kAnthropic;

}  // namespace fak::ride

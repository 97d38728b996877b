#include "ride/adapter_parts.h"

// SGLang, by its sources: it runs on no machine that we had.
namespace fak::ride {
namespace {

constexpr std::string_view kOwned[] = {
    "rid",             // ours: what /abort_request names
    "bootstrap_host",  // of the prefill worker to fetch from
    "bootstrap_port", "bootstrap_room", "data_parallel_rank", "routed_dp_rank",
    "disagg_prefill_dp_rank",
    "custom_logit_processor",  // code
    // Of its own generate, where every member of a request of its inside can be set.
    "bootstrap_pair_key", "decode_tp_size", "routing_key",
    "session_params",   // a conversation that is kept there, anybody's
    "lora_id",          // its name inside of what lora_path names
    "http_worker_ipc",  // who gets the answer
    "need_wait_for_mm_inputs", "num_items_assigned", "received_time",
    "log_metrics",  // not to be counted
};

constexpr auto kRoutes = AllRoutesAnd({wire::Surface::kGenerate, "/generate"});

std::string Recognise(const Replies& replies) {
  if (OwnedBy(replies) == "sglang") {
    return "GET /v1/models says owned_by sglang";
  }
  for (const char* asked : {"GET /model_info", "GET /get_model_info"}) {
    const Reply& reply = replies.At(asked);
    if (reply.status == 200 && reply.document.Find("model_path") != nullptr) {
      return std::string(asked) + " names a model_path";
    }
  }
  return MetricsHave(replies, "\nsglang:") ? "GET /metrics has families of sglang:" : "";
}

bool HasEvents(const Reply& reply) {
  const Json* config = reply.document.Find("kv_events_config");
  return reply.status == 200 && config != nullptr && !config->is_null();
}

void Describe(const Replies& replies, Endpoint& endpoint) {
  for (const char* asked : {"GET /server_info", "GET /get_server_info"}) {
    const Json& info = replies.At(asked).document;
    if (endpoint.version.empty()) {
      endpoint.version_asked = asked;
      endpoint.version = StringAt(info, "version");
    }
    if (endpoint.context_length == 0) {
      endpoint.context_asked = asked;
      endpoint.context_length = CountAt(info, "context_length", 0);
    }
  }
}

std::optional<Call> Abort(const std::string& id) {
  // It ends every request whose id begins with this one, an empty one all: ours have one length.
  if (id.empty()) {
    return std::nullopt;
  }
  std::string body;
  JsonWriter(body).BeginObject().Key("rid").String(id).EndObject();
  return Call{"POST", "/abort_request", std::move(body)};
}

Result<std::vector<Call>> Evict(const Endpoint&, const driver::EvictRequest&) {
  return std::vector<Call>{{"POST", "/flush_cache"}};
}

Result<driver::EvictReport> ReadEvict(const Reply& reply) {
  if (reply.status == 400) {
    Error busy{Code::kUnavailable, "SGLang flushes its cache only while no request runs or waits"};
    busy.retry_after_s = 1;
    return Fail(std::move(busy));
  }
  if (reply.status != 200) {
    return Fail(Code::kUpstreamError, "POST /flush_cache answered " + std::to_string(reply.status));
  }
  return driver::EvictReport{.guarantee = driver::EvictGuarantee::kWholePrefix};
}

Call Tokenize(const std::string& text) {
  return {"POST", "/v1/tokenize", TokenizeBody(text)};
}

constexpr Check kChecks[] = {
    kMetricsCheck,
    {Signal::kKvEvents, "GET", "/server_info", {}, HasEvents},
    // An id that no request has: asking whether it is served ends nobody's work.
    {Signal::kAbort, "POST", "/abort_request", R"({"rid":"fak-probe-of-an-id-that-none-has"})"},
    {Signal::kCacheReset, {}, {}, {}, nullptr, true},
    Never(Signal::kSleep),  // it releases memory piece by piece, for trainers
    {Signal::kTokenizer, "POST", "/v1/tokenize", kTokenizeProbe, GivesTokens},
    kMessagesCheck,
    kResponsesCheck,
    kEmbeddingsCheck,
    Never(Signal::kSlots),
    Never(Signal::kTemplate),
};

}  // namespace

const Adapter kSglang = {
    .engine = "sglang",
    .routes = kRoutes,
    .owned_fields = kOwned,
    .id_field = "rid",
    .takes_cache_salt = true,
    .honours_cache_salt = true,
    .honours_priority = true,
    .publishes_kv_events = true,
    .probes_generation = true,
    .batches = true,
    .recognise = Recognise,
    .checks = kChecks,
    .describe = Describe,
    .abort = Abort,
    .evict = Evict,
    .read_evict = ReadEvict,
    .tokenize = Tokenize,
};

}  // namespace fak::ride

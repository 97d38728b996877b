#include "ride/adapter_parts.h"

// vLLM, 0.32 on the CPU as measured; older ones by their sources.
namespace fak::ride {
namespace {

constexpr std::string_view kOwned[] = {
    "kv_transfer_params",  // hosts and ports to connect to
    "ec_transfer_params",
    "request_id",  // ours goes in a header
};

std::string Recognise(const Replies& replies) {
  if (OwnedBy(replies) == "vllm") {
    return "GET /v1/models says owned_by vllm";
  }
  return MetricsHave(replies, "\nvllm:") ? "GET /metrics has families of vllm:" : "";
}

void Describe(const Replies& replies, Endpoint& endpoint) {
  endpoint.version_asked = "GET /version";
  endpoint.version = StringAt(replies.At(endpoint.version_asked).document, "version");
}

// It is there, for POST. Unlike every path of the same switch that takes GET, this isn't the engine
// process's to answer, which a long prompt keeps busy for seconds.
bool TakesAnotherMethod(const Reply& reply) {
  return reply.status == 405;
}

// True while paused as well.
bool Sleeps(const Reply& reply) {
  const Json* sleeping = reply.document.Find("is_sleeping");
  return sleeping != nullptr && sleeping->is_bool() && sleeping->boolean();
}

Result<std::vector<Call>> Evict(const Endpoint& endpoint, const driver::EvictRequest&) {
  if (!endpoint.Has(Signal::kCacheReset)) {
    return Fail(Code::kUnsupported,
                "vLLM serves its cache reset only when started with VLLM_SERVER_DEV_MODE=1");
  }
  return std::vector<Call>{{"POST", "/reset_prefix_cache"}};
}

Result<driver::EvictReport> ReadEvict(const Reply& reply) {
  const Json* success = reply.document.Find("success");
  if (reply.status != 200 || success == nullptr || !success->is_bool()) {
    return Fail(Code::kUpstreamError,
                "POST /reset_prefix_cache answered " + std::to_string(reply.status));
  }
  if (!success->boolean()) {
    Error busy{Code::kUnavailable, "vLLM resets its cache only while no request holds blocks"};
    busy.retry_after_s = 1;
    return Fail(std::move(busy));
  }
  return driver::EvictReport{.guarantee = driver::EvictGuarantee::kWholePrefix};
}

Call PutToSleep(int32_t level) {
  return {"POST", "/sleep?level=" + std::to_string(level)};
}

Call Wake() {
  return {"POST", "/wake_up"};
}

constexpr Check kChecks[] = {
    kMetricsCheck,
    kKvEventsCheck,
    {Signal::kCacheReset, "GET", "/reset_prefix_cache", {}, TakesAnotherMethod},
    {Signal::kSleep, "GET", "/sleep", {}, TakesAnotherMethod},
    {Signal::kTokenizer, "POST", "/tokenize", kTokenizeProbe, GivesTokens},
    kAbortByClosing,
    kMessagesCheck,
    kResponsesCheck,
    kEmbeddingsCheck,
    Never(Signal::kSlots),
    Never(Signal::kTemplate),
};

}  // namespace

const Adapter kVllm = {
    .engine = "vllm",
    .routes = kAllRoutes,
    .owned_fields = kOwned,
    .rank_header = "x-data-parallel-rank",
    .token_ids = true,
    .takes_cache_salt = true,
    .honours_cache_salt = true,
    .honours_priority = true,
    .publishes_kv_events = true,
    .sleep_path = "/is_sleeping",
    .sleeps = Sleeps,
    .recognise = Recognise,
    .measured = Always,
    .checks = kChecks,
    .describe = Describe,
    .evict = Evict,
    .read_evict = ReadEvict,
    .put_to_sleep = PutToSleep,
    .wake = Wake,
    .tokenize = TokenizePrompt,
};

}  // namespace fak::ride

#include "ride/adapter_parts.h"

// mlx-lm's server, 0.32 as measured on a CPU, and vllm-mlx by its sources: an engine with next to
// no surface, of which nothing is made up.
namespace fak::ride {
namespace {

constexpr std::string_view kOwned[] = {
    "adapters",  // folders or hub names to load from
    "draft_model",
};

// The other of the two has metrics.
bool IsMlxLm(const Replies& replies) {
  return !MetricsHave(replies, "vllm_mlx_");
}

std::string Recognise(const Replies& replies) {
  if (!IsMlxLm(replies)) {
    return "GET /metrics has families of vllm_mlx_";
  }
  const Reply& health = replies.At("GET /health");
  const bool base = health.headers.Get("server").value_or("").starts_with("BaseHTTP/");
  return base && StringAt(health.document, "status") == "ok"
             ? "GET /health answers as Python's BaseHTTP server"
             : "";
}

// We ask for the model that it was started with, so a 404 is no unknown model: it answers so when
// a generation fails.
void Refine(int status, std::string_view, Error& error) {
  if (status == 404) {
    error.upstream_status = 0;
    error.code = error.code == Code::kNotFound ? Code::kUpstreamError : error.code;
  }
}

bool IsCacheStats(const Reply& reply) {
  return reply.status == 200 && reply.document.is_object();
}

Result<std::vector<Call>> Evict(const Endpoint& endpoint, const driver::EvictRequest&) {
  if (!endpoint.Has(Signal::kCacheReset)) {
    return Fail(Code::kUnsupported, "mlx-lm has no call that empties its prompt cache");
  }
  return std::vector<Call>{{"DELETE", "/v1/cache"}};
}

Result<driver::EvictReport> ReadEvict(const Reply& reply) {
  if (reply.status != 200) {
    return Fail(Code::kUpstreamError, "DELETE /v1/cache answered " + std::to_string(reply.status));
  }
  return driver::EvictReport{.guarantee = driver::EvictGuarantee::kWholePrefix};
}

constexpr Check kChecks[] = {
    kMetricsCheck,
    Never(Signal::kKvEvents),
    {Signal::kCacheReset, "GET", "/v1/cache/stats", {}, IsCacheStats},  // vllm-mlx alone
    Never(Signal::kSleep),
    Never(Signal::kTokenizer),
    kAbortByClosing,
    kMessagesCheck,
    kResponsesCheck,
    kEmbeddingsCheck,
    Never(Signal::kSlots),
    Never(Signal::kTemplate),
};

}  // namespace

const Adapter kMlx = {
    .engine = "mlx",
    .routes = kAllRoutes,
    .owned_fields = kOwned,
    .default_model = "default_model",  // another name sends it to a hub of models
    .refine = Refine,
    .grammars = false,
    .images = false,
    .cancel_stops_engine = false,  // streams end; an answer that isn't streamed goes on to its end
    .health_path = "/health",      // its list of models can be 200 and empty
    .probes_generation = true,
    .recognise = Recognise,
    .measured = IsMlxLm,
    .checks = kChecks,
    .evict = Evict,
    .read_evict = ReadEvict,
};

}  // namespace fak::ride

#include "ride/adapter_parts.h"

// llm-d: vLLM behind a gateway whose endpoint picker routes. By its sources; what answers is vLLM,
// so nothing tells the two apart from outside and "auto" says vllm.
namespace fak::ride {
namespace {

constexpr std::string_view kOwned[] = {"kv_transfer_params", "ec_transfer_params", "request_id"};

std::string Recognise(const Replies&) {
  return "";
}

constexpr Check kChecks[] = {
    kMetricsCheck,
    Never(Signal::kKvEvents),  // of its pods; the gateway has none
    Never(Signal::kCacheReset),
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

const Adapter kLlmd = {
    .engine = "llmd",
    .routes = kAllRoutes,
    .owned_fields = kOwned,
    .served_by_header = "x-gateway-destination-endpoint-served",
    .dropped_header = "x-llm-d-request-dropped-reason",
    .takes_cache_salt = true,
    .honours_cache_salt = true,
    .honours_priority = true,
    .probes_generation = true,
    .batches = true,
    .recognise = Recognise,
    .checks = kChecks,
};

}  // namespace fak::ride

#include "ride/adapter_parts.h"

// Dynamo's frontend, 1.6 with mockers as measured. It routes; fak governs in front of it and never
// routes a second time: one frontend is one upstream.
namespace fak::ride {
namespace {

// nvext names workers, jumps the queue, and its token_data replaces the messages altogether.
constexpr std::string_view kOwned[] = {"nvext"};

constexpr std::string_view kDescribePath = "/openapi.json";

std::string Recognise(const Replies& replies) {
  const Json& health = replies.At("GET /health").document;
  if (health.Find("instances") != nullptr && health.Find("endpoints") != nullptr) {
    return "GET /health lists endpoints and instances";
  }
  return MetricsHave(replies, "dynamo_frontend_") ? "GET /metrics has families of dynamo_frontend_"
                                                  : "";
}

void Describe(const Replies& replies, Endpoint& endpoint) {
  for (const Json& model : ArrayAt(replies.At("GET /v1/models").document, "data")) {
    endpoint.context_length = CountAt(model, "context_window", 0);
    endpoint.context_asked = "GET /v1/models";
  }
  // It has no /version; its description of itself has the frontend's.
  endpoint.version_asked = "GET " + std::string(kDescribePath);
  const Json& described = replies.At(endpoint.version_asked).document;
  endpoint.version = StringAt(ObjectAt(described, "info"), "version");
}

// With no worker left its routes go: a 404 with nothing in it, under which the model is known and
// nobody is there to run it.
void Refine(int status, std::string_view body, Error& error) {
  if (status == 404 && body.empty()) {
    error = {Code::kUnavailable, "Dynamo has no worker left for this model"};
    error.retry_after_s = 1;
  }
}

constexpr Check kChecks[] = {
    kMetricsCheck,
    Never(Signal::kKvEvents),  // of its workers, on a plane of their own
    Never(Signal::kCacheReset),
    Never(Signal::kSleep),
    Never(Signal::kTokenizer),
    kAbortByClosing,
    kMessagesCheck,
    kResponsesCheck,
    // It takes them for any model, and answers 404 for one that has none.
    {Signal::kEmbeddings, "POST", "/v1/embeddings", kEmptyProbe, nullptr, false,
     /*served_without=*/true},
    Never(Signal::kSlots),
    Never(Signal::kTemplate),
};

}  // namespace

const Adapter kDynamo = {
    .engine = "dynamo",
    .routes = kAllRoutes,
    .owned_fields = kOwned,
    .refine = Refine,
    // Its router keys by it; its mockers' caches don't, and no real worker was seen.
    .takes_cache_salt = true,
    .publishes_kv_events = true,
    .ready = ListsModels,  // its /health is 200 with no worker at all; the list is empty then
    .probes_generation = true,
    .batches = true,
    .recognise = Recognise,
    .measured = Always,
    .checks = kChecks,
    .describe_path = kDescribePath,
    .describe = Describe,
};

}  // namespace fak::ride

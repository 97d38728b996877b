#include "ride/adapter_parts.h"

// OpenAI's own API, and every server of its wire that is none of the engines known here.
namespace fak::ride {
namespace {

constexpr std::string_view kPassed[] = {"openai-beta", "idempotency-key"};
constexpr std::string_view kKept[] = {
    "x-ratelimit-limit-requests",   "x-ratelimit-limit-tokens",   "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens",
    "openai-processing-ms",
};

std::string Recognise(const Replies& replies) {
  const Reply& models = replies.At("GET /v1/models");
  return models.status == 200 && models.document.Find("data") != nullptr
             ? "GET /v1/models is a list of models, and nothing says whose"
             : "";
}

constexpr Route kRoutes[] = {
    {wire::Surface::kChat, "/v1/chat/completions"},
    {wire::Surface::kCompletion, "/v1/completions"},
    {wire::Surface::kEmbedding, "/v1/embeddings"},
    {wire::Surface::kResponses, "/v1/responses"},
};

constexpr Check kChecks[] = {
    Never(Signal::kMetrics),  Never(Signal::kKvEvents),  Never(Signal::kCacheReset),
    Never(Signal::kSleep),    Never(Signal::kTokenizer), kAbortByClosing,
    Never(Signal::kMessages), kResponsesCheck,           kEmbeddingsCheck,
    Never(Signal::kSlots),    Never(Signal::kTemplate),
};

}  // namespace

const Adapter kOpenAi = {
    .engine = "openai",
    .routes = kRoutes,
    .passed_headers = kPassed,
    .kept_headers = kKept,
    .recognise = Recognise,
    .checks = kChecks,
};

}  // namespace fak::ride

#include "ride/adapter_parts.h"

// Anthropic's API, by its documents.
namespace fak::ride {
namespace {

constexpr std::string_view kPassed[] = {"anthropic-version", "anthropic-beta"};
constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
    {"anthropic-version", "2023-06-01"}};
constexpr std::string_view kKept[] = {
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-limit",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-input-tokens-limit",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-limit",
    "anthropic-ratelimit-output-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset",
    "request-id",
};

std::string Recognise(const Replies& replies) {
  const Json& models = replies.At("GET /v1/models").document;
  const Json::Array& list = ArrayAt(models, "data");
  if (!list.empty() && StringAt(list.front(), "type") == "model") {
    return "GET /v1/models is a list in Anthropic's shape";
  }
  return StringAt(models, "type") == "error" && models.Find("error") != nullptr
             ? "GET /v1/models is refused in Anthropic's shape"
             : "";
}

constexpr Route kRoutes[] = {
    {wire::Surface::kMessages, "/v1/messages"},
    {wire::Surface::kCountTokens, "/v1/messages/count_tokens"},
};

constexpr Check kChecks[] = {
    Never(Signal::kMetrics), Never(Signal::kKvEvents),  Never(Signal::kCacheReset),
    Never(Signal::kSleep),   Never(Signal::kTokenizer), kAbortByClosing,
    kMessagesCheck,          Never(Signal::kResponses), Never(Signal::kEmbeddings),
    Never(Signal::kSlots),   Never(Signal::kTemplate),
};

}  // namespace

const Adapter kAnthropic = {
    .engine = "anthropic",
    .routes = kRoutes,
    .passed_headers = kPassed,
    .default_headers = kDefaults,
    .key_header = KeyHeader::kXApiKey,
    .kept_headers = kKept,
    .probe_every_ms = 60'000,
    .recognise = Recognise,
    .checks = kChecks,
};

}  // namespace fak::ride

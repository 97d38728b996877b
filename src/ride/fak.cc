#include <algorithm>

#include "ride/adapter_parts.h"

// fak itself, as a replica of another.
namespace fak::ride {
namespace {

std::string Recognise(const Replies& replies) {
  return StringAt(replies.At("GET /version").document, "engine") == "fak"
             ? "GET /version says engine fak"
             : "";
}

void Describe(const Replies& replies, Endpoint& endpoint) {
  endpoint.version = StringAt(replies.At("GET /version").document, "version");
}

bool IsServed(const Reply& reply) {
  return reply.status == 400;  // the body asked for nothing; 401 and 403: our key may not
}

Result<std::vector<Call>> Evict(const Endpoint&, const driver::EvictRequest& request) {
  std::string body;
  if (request.maybe_document != nullptr) {
    Json document = *request.maybe_document;
    document.Remove("model");  // its names are its own
    document.Remove("tenant");
    if (!request.cache_salt.empty()) {
      document.Set("cache_salt", request.cache_salt);
    }
    body = document.Dump();
  } else {
    body =
        request.scope == driver::EvictScope::kAll ? R"({"scope":"all"})" : R"({"scope":"prefix"})";
  }
  return std::vector<Call>{{"POST", "/v1/fak/cache/evict", std::move(body)}};
}

// The weakest of its rows.
Result<driver::EvictGuarantee> ReadEvict(const Reply& reply) {
  const Json::Array& rows = ArrayAt(reply.document, "results");
  if (reply.status != 200 || rows.empty()) {
    const std::string said = StringAt(ObjectAt(reply.document, "error"), "message");
    const bool refused = reply.status == 400;
    return Fail(refused ? Code::kUnsupported : Code::kUpstreamError,
                "POST /v1/fak/cache/evict answered " + std::to_string(reply.status) +
                    (said.empty() ? "" : ": " + said));
  }
  driver::EvictGuarantee weakest = driver::EvictGuarantee::kExact;
  for (const Json& row : rows) {
    const std::string name = StringAt(row, "guarantee");
    const driver::EvictGuarantee one = name == "exact" ? driver::EvictGuarantee::kExact
                                       : name == "whole_prefix"
                                           ? driver::EvictGuarantee::kWholePrefix
                                           : driver::EvictGuarantee::kNone;
    weakest = std::min(weakest, one);
  }
  return weakest;
}

constexpr Check kChecks[] = {
    kMetricsCheck,
    kKvEventsCheck,
    {Signal::kCacheReset, "POST", "/v1/fak/cache/evict", kEmptyProbe, IsServed},
    Never(Signal::kSleep),
    {Signal::kTokenizer, "POST", "/tokenize", kTokenizeProbe, GivesTokens},
    kAbortByClosing,
    kMessagesCheck,
    kResponsesCheck,
    kEmbeddingsCheck,
};

}  // namespace

const Adapter kFak = {
    .engine = "fak",
    .routes = kAllRoutes,
    .token_ids = true,
    .honours_cache_salt = true,
    .honours_priority = true,
    .evicts_exactly = true,
    .publishes_kv_events = true,
    .health_path = "/ready",
    .recognise = Recognise,
    .checks = kChecks,
    .describe = Describe,
    .evict = Evict,
    .read_evict = ReadEvict,
    .tokenize = TokenizePrompt,
};

}  // namespace fak::ride

#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>

#include "ride/adapter.h"
#include "ride/json_reads.h"

// What several adapters say in the same words.
namespace fak::ride {

inline bool MetricsHave(const Replies& replies, std::string_view prefix) {
  const Reply& metrics = replies.At("GET /metrics");
  return metrics.status == 200 && metrics.body.find(prefix) != std::string::npos;
}

inline std::string OwnedBy(const Replies& replies) {
  const Json::Array& models = ArrayAt(replies.At("GET /v1/models").document, "data");
  return models.empty() ? std::string() : StringAt(models.front(), "owned_by");
}

inline bool Always(const Replies&) {
  return true;
}

inline bool Is200(const Reply& reply) {
  return reply.status == 200;
}

inline bool ListsModels(const Reply& reply) {
  return reply.status == 200 && !ArrayAt(reply.document, "data").empty();
}

inline bool GivesTokens(const Reply& reply) {
  return reply.status == 200 && !ArrayAt(reply.document, "tokens").empty();
}

// vLLM's body, which fak's own /tokenize and SGLang's take too.
inline std::string TokenizeBody(const std::string& text) {
  std::string body;
  JsonWriter(body).BeginObject().Key("prompt").String(text).EndObject();
  return body;
}

inline Call TokenizePrompt(const std::string& text) {
  return {"POST", "/tokenize", TokenizeBody(text)};
}

// vLLM's page of where it publishes, which fak serves too.
inline bool PublishesKvEvents(const Reply& reply) {
  return reply.status == 200 &&
         reply.body.find("\"enable_kv_cache_events\":true") != std::string::npos;
}

// Bodies for checks: the first is a thing to tokenize, the second asks for nothing and is refused
// wherever the path is served.
inline constexpr std::string_view kTokenizeProbe = R"({"prompt":"fak","content":"fak"})";
inline constexpr std::string_view kEmptyProbe = "{}";

inline constexpr Check kMessagesCheck = {Signal::kMessages, "POST", "/v1/messages", kEmptyProbe};
inline constexpr Check kResponsesCheck = {Signal::kResponses, "POST", "/v1/responses", kEmptyProbe};
inline constexpr Check kEmbeddingsCheck = {Signal::kEmbeddings, "POST", "/v1/embeddings",
                                           kEmptyProbe};
inline constexpr Check kMetricsCheck = {Signal::kMetrics, "GET", "/metrics", {}, Is200};
inline constexpr Check kKvEventsCheck = {
    Signal::kKvEvents, "GET", "/kv_event_sources", {}, PublishesKvEvents};
// No request shows it without ending somebody's work.
inline constexpr Check kAbortByClosing = {Signal::kAbort, {}, {}, {}, nullptr, true};
constexpr Check Never(Signal signal) {
  return {signal, {}, {}, {}, nullptr, false};
}

// The surfaces that most engines serve under OpenAI's and Anthropic's own paths.
inline constexpr Route kAllRoutes[] = {
    {wire::Surface::kChat, "/v1/chat/completions"},
    {wire::Surface::kCompletion, "/v1/completions"},
    {wire::Surface::kEmbedding, "/v1/embeddings"},
    {wire::Surface::kResponses, "/v1/responses"},
    {wire::Surface::kMessages, "/v1/messages"},
    {wire::Surface::kCountTokens, "/v1/messages/count_tokens"},
};

// Those, and one of the engine's own.
constexpr auto AllRoutesAnd(const Route& own) {
  std::array<Route, std::size(kAllRoutes) + 1> routes{};
  std::copy(std::begin(kAllRoutes), std::end(kAllRoutes), routes.begin());
  routes.back() = own;
  return routes;
}

}  // namespace fak::ride

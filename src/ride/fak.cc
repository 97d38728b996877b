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
  endpoint.version_asked = "GET /version";
  const Json& said = replies.At(endpoint.version_asked).document;
  endpoint.version = StringAt(said, "version");
  endpoint.artifact = StringAt(said, "artifact");  // where it serves a model itself
}

bool Continues(const driver::Prepared& prepared) {
  return prepared.turn->surface == wire::Surface::kChat ||
         prepared.turn->surface == wire::Surface::kCompletion;
}

void ContinueAnswer(const driver::Prepared& prepared, std::vector<wire::MemberEdit>& edits) {
  const driver::Continuation& so_far = *prepared.maybe_continuation;
  std::string field;
  JsonWriter json(field);
  json.BeginObject().Key("artifact").String(so_far.artifact).Key("created").Int(so_far.created_s);
  json.Key("token_ids").BeginArray();
  for (const int32_t token : so_far.tokens) {
    json.Int(token);
  }
  json.EndArray().EndObject();
  edits.push_back({"continue_answer", std::move(field)});
  if (!prepared.turn->sampling.seed && so_far.seed) {
    edits.push_back({"seed", std::to_string(static_cast<int64_t>(*so_far.seed))});
  }
}

bool IsServed(const Reply& reply) {
  return reply.status == 400;  // the body asked for nothing; 401 and 403: our key may not
}

Result<std::vector<Call>> Evict(const Endpoint&, const driver::EvictRequest& request) {
  Json document = Json::Object{};
  if (request.maybe_document != nullptr) {
    document = *request.maybe_document;
    document.Remove("model");
    document.Remove("tenant");
  } else {
    document.Set("scope", request.scope == driver::EvictScope::kPrefix ? "prefix" : "all");
  }
  if (request.scope == driver::EvictScope::kSalt || !request.cache_salt.empty()) {
    document.Set("cache_salt", request.cache_salt);
  }
  if (!request.model.empty()) {
    document.Set("model", request.model);  // as it is called there
  }
  return std::vector<Call>{{"POST", "/v1/fak/cache/evict", document.Dump()}};
}

// Absent where the row doesn't say.
std::optional<uint64_t> CountIn(const Json& row, std::string_view member) {
  const Json* found = row.Find(member);
  const auto count = found != nullptr && found->is_number() ? found->AsInt() : std::nullopt;
  return count && *count >= 0 ? std::optional(static_cast<uint64_t>(*count)) : std::nullopt;
}

// The weakest of its rows; their blocks together, where all have counted; the most that is left.
Result<driver::EvictReport> ReadEvict(const Reply& reply) {
  const Json::Array& rows = ArrayAt(reply.document, "results");
  if (reply.status != 200 || rows.empty()) {
    const std::string said = StringAt(ObjectAt(reply.document, "error"), "message");
    const bool refused = reply.status == 400;
    return Fail(refused ? Code::kUnsupported : Code::kUpstreamError,
                "POST /v1/fak/cache/evict answered " + std::to_string(reply.status) +
                    (said.empty() ? "" : ": " + said));
  }
  driver::EvictReport all{.guarantee = driver::EvictGuarantee::kExact, .blocks = 0};
  for (const Json& row : rows) {
    const std::string name = StringAt(row, "guarantee");
    const driver::EvictGuarantee one = name == "exact" ? driver::EvictGuarantee::kExact
                                       : name == "whole_prefix"
                                           ? driver::EvictGuarantee::kWholePrefix
                                           : driver::EvictGuarantee::kNone;
    all.guarantee = std::min(all.guarantee, one);
    const std::optional<uint64_t> blocks = CountIn(row, "blocks");
    all.blocks = all.blocks && blocks ? std::optional(*all.blocks + *blocks) : std::nullopt;
    all.tokens_left = std::max(all.tokens_left, CountIn(row, "tokens_left"));
  }
  return all;
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
    Never(Signal::kSlots),
    Never(Signal::kTemplate),
};

}  // namespace

const Adapter kFak = {
    .engine = "fak",
    .routes = kAllRoutes,
    .token_ids = true,
    .continues = Continues,
    .continue_answer = ContinueAnswer,
    .continues_exactly = true,
    .takes_cache_salt = true,
    .honours_cache_salt = true,
    .honours_priority = true,
    .evicts_exactly = true,
    .publishes_kv_events = true,
    .health_path = "/ready",
    .recognise = Recognise,
    .measured = Always,
    .checks = kChecks,
    .describe = Describe,
    .evict = Evict,
    .read_evict = ReadEvict,
    .tokenize = TokenizePrompt,
};

}  // namespace fak::ride

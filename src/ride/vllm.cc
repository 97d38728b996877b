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
  // No digest is told: what it was started with must do.
  const Json::Array& models = ArrayAt(replies.At("GET /v1/models").document, "data");
  if (!models.empty() && !endpoint.version.empty()) {
    endpoint.artifact = endpoint.version + " " + StringAt(models.front(), "root") + " " +
                        std::to_string(IntAt(models.front(), "max_model_len", 0));
  }
}

int64_t MaxTokens(const Json& document) {
  constexpr int64_t kDefault = 16;
  const Json* given = document.Find("max_tokens");
  return given != nullptr && given->is_number() ? given->AsInt().value_or(0) : kDefault;
}

// Where what was said can stand in the prompt and nothing is lost by that: a stop string whose
// beginning was held back, penalties of the output alone, offsets of log probabilities.
bool Continues(const driver::Prepared& prepared) {
  const wire::Turn& turn = *prepared.turn;
  const wire::SamplingParams& sampling = turn.sampling;
  const driver::Continuation* so_far = prepared.maybe_continuation.get();
  return turn.surface == wire::Surface::kCompletion && prepared.document != nullptr &&
         !turn.return_token_ids && sampling.stop.empty() &&
         sampling.presence_penalty.value_or(0) == 0 &&
         sampling.frequency_penalty.value_or(0) == 0 && sampling.logprobs < 0 &&
         turn.unserved_field.empty() && turn.unknown_fields.empty() &&
         (so_far == nullptr ||
          (!so_far->prompt_tokens.empty() &&
           static_cast<int64_t>(so_far->tokens.size()) < MaxTokens(*prepared.document)));
}

void ContinueAnswer(const driver::Prepared& prepared, std::vector<wire::MemberEdit>& edits) {
  const driver::Continuation& so_far = *prepared.maybe_continuation;
  const auto said = static_cast<int64_t>(so_far.tokens.size());
  std::string prompt;
  JsonWriter json(prompt);
  json.BeginArray();
  for (const std::vector<int32_t>* tokens : {&so_far.prompt_tokens, &so_far.tokens}) {
    for (const int32_t token : *tokens) {
      json.Int(token);
    }
  }
  json.EndArray();
  edits.push_back({"prompt", std::move(prompt)});
  edits.push_back({"max_tokens", std::to_string(MaxTokens(*prepared.document) - said)});
  if (const int64_t least = prepared.turn->sampling.min_tokens; least > 0) {
    edits.push_back({"min_tokens", std::to_string(std::max<int64_t>(0, least - said))});
  }
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
    .continues = Continues,
    .continue_answer = ContinueAnswer,
    .unasked_token_ids = "null",
    .takes_cache_salt = true,
    .honours_cache_salt = true,
    .honours_priority = true,
    .publishes_kv_events = true,
    .sleep_path = "/is_sleeping",
    .sleeps = Sleeps,
    .probes_generation = true,
    .batches = true,
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

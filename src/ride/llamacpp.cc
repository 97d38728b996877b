#include "ride/adapter_parts.h"

// llama.cpp's llama-server, build 11434 as measured.
namespace fak::ride {
namespace {

constexpr std::string_view kOwned[] = {
    "id_slot",  // whose cache to sit in
    "slot_id",
};

constexpr std::string_view kNoSlots =
    "llama-server saves, restores and erases slots only when started with --slot-save-path";
constexpr std::string_view kSlotsUntold =
    "llama-server's GET /props doesn't say how many slots it has";

std::string Recognise(const Replies& replies) {
  const std::string build = StringAt(replies.At("GET /props").document, "build_info");
  if (!build.empty()) {
    return "GET /props says build_info " + build;
  }
  if (OwnedBy(replies) == "llamacpp") {
    return "GET /v1/models says owned_by llamacpp";
  }
  return MetricsHave(replies, "\nllamacpp:") ? "GET /metrics has families of llamacpp:" : "";
}

void Describe(const Replies& replies, Endpoint& endpoint) {
  endpoint.version_asked = "GET /props";
  const Json& props = replies.At(endpoint.version_asked).document;
  endpoint.version = StringAt(props, "build_info");
  constexpr int32_t kSlotsMax = 1024;  // each is a call; more than any build of it takes
  const int32_t slots = CountAt(props, "total_slots", 0);
  endpoint.slots = slots <= kSlotsMax ? slots : 0;
  endpoint.context_asked = "GET /props";
  endpoint.context_length = CountAt(ObjectAt(props, "default_generation_settings"), "n_ctx", 0);
  const Json::Array& models = ArrayAt(replies.At("GET /v1/models").document, "data");
  if (endpoint.context_length == 0 && !models.empty()) {
    endpoint.context_asked = "GET /v1/models";
    endpoint.context_length = CountAt(ObjectAt(models.front(), "meta"), "n_ctx", 0);  // of a slot
  }
}

// Slots can be erased. Prompts that lost their slot to another are kept in RAM (--cache-ram, 8 GiB
// unless said), from where they come back whole: no call empties that, and none tells whether it is
// there, so nothing can be promised.
Result<std::vector<Call>> Evict(const Endpoint& endpoint, const driver::EvictRequest& request) {
  if (request.demanded != driver::EvictGuarantee::kNone) {
    return Fail(Code::kUnsupported,
                "llama-server may keep prompts in RAM (--cache-ram), and no call empties that");
  }
  if (!endpoint.Has(Signal::kCacheReset)) {
    return Fail(Code::kUnsupported, std::string(kNoSlots));
  }
  if (endpoint.slots <= 0) {
    return Fail(Code::kUnsupported, std::string(kSlotsUntold));
  }
  std::vector<Call> calls;
  for (int32_t slot = 0; slot < endpoint.slots; ++slot) {
    calls.push_back({"POST", "/slots/" + std::to_string(slot) + "?action=erase"});
  }
  return calls;
}

Result<driver::EvictReport> ReadEvict(const Reply& reply) {
  if (reply.status != 200 || reply.document.Find("n_erased") == nullptr) {
    return Fail(Code::kUpstreamError,
                "POST /slots/N?action=erase answered " + std::to_string(reply.status));
  }
  return driver::EvictReport{.guarantee = driver::EvictGuarantee::kNone};
}

Call Tokenize(const std::string& text) {
  std::string body;
  JsonWriter(body)
      .BeginObject()
      .Key("content")
      .String(text)
      .Key("add_special")
      .Bool(true)
      .Key("parse_special")
      .Bool(true)
      .EndObject();
  return {"POST", "/tokenize", std::move(body)};
}

// A slot that there isn't is another one to it: it would say 200.
Result<Call> ActOnSlot(const Endpoint& endpoint, const driver::SlotRequest& request) {
  using Action = driver::SlotRequest::Action;
  if (!endpoint.Has(Signal::kSlots)) {
    return Fail(Code::kUnsupported, std::string(kNoSlots));
  }
  if (endpoint.slots <= 0) {
    return Fail(Code::kUnsupported, std::string(kSlotsUntold));
  }
  if (request.slot >= endpoint.slots) {
    return Fail(Code::kInvalidArgument,
                "slot: there are " + std::to_string(endpoint.slots) + ", from 0", "slot");
  }
  const std::string_view action = request.action == Action::kSave      ? "save"
                                  : request.action == Action::kRestore ? "restore"
                                                                       : "erase";
  std::string path = "/slots/" + std::to_string(request.slot) + "?action=";
  path += action;
  std::string body;
  if (request.action != Action::kErase) {
    JsonWriter(body).BeginObject().Key("filename").String(request.file).EndObject();
  }
  return Call{"POST", std::move(path), std::move(body)};
}

bool GivesPrompt(const Reply& reply) {
  const Json* prompt = reply.document.Find("prompt");
  return reply.status == 200 && prompt != nullptr && prompt->is_string();
}

constexpr auto kRoutes = AllRoutesAnd({wire::Surface::kTemplate, "/apply-template"});

constexpr std::string_view kSlotCounts[] = {"n_saved", "n_restored", "n_erased"};

// An action that there is not: 400 where slots have actions, 501 where they haven't.
constexpr std::string_view kNoAction = "/slots/0?action=none";

constexpr Check kChecks[] = {
    kMetricsCheck,
    Never(Signal::kKvEvents),
    {Signal::kCacheReset, "POST", kNoAction},
    Never(Signal::kSleep),
    {Signal::kTokenizer, "POST", "/tokenize", kTokenizeProbe, GivesTokens},
    kAbortByClosing,
    kMessagesCheck,
    kResponsesCheck,
    kEmbeddingsCheck,
    {Signal::kSlots, "POST", kNoAction},
    {Signal::kTemplate, "POST", "/apply-template",
     R"({"messages":[{"role":"user","content":"fak"}]})", GivesPrompt},
};

}  // namespace

const Adapter kLlamaCpp = {
    .engine = "llamacpp",
    .routes = kRoutes,
    .owned_fields = kOwned,
    .closes_after_stream = true,
    // It looks whether a client is still there when it has had no result for a second, of anybody's
    // request: on a busy server an answer that isn't streamed runs on.
    .cancel_stops_engine = false,
    .health_path = "/health",
    .probes_generation = true,
    .loads_models = true,
    .recognise = Recognise,
    .measured = Always,
    .checks = kChecks,
    .describe_path = "/props",
    .describe = Describe,
    .evict = Evict,
    .read_evict = ReadEvict,
    .act_on_slot = ActOnSlot,
    .slot_counts = kSlotCounts,
    .tokenize = Tokenize,
};

}  // namespace fak::ride

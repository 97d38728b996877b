#include "ride/adapter.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace fak::ride {

const Reply& Replies::At(const std::string& asked) const {
  static const Reply kNone;
  const auto found = replies_.find(asked);
  return found == replies_.end() ? kNone : found->second;
}

bool Endpoint::Has(Signal signal) const {
  return std::any_of(findings.begin(), findings.end(), [signal](const Finding& finding) {
    return finding.signal == signal && finding.has;
  });
}

std::span<const Call> IdentifyCalls() {
  static const std::array kCalls = {
      Call{"GET", "/v1/models"}, Call{"GET", "/version"},    Call{"GET", "/health"},
      Call{"GET", "/metrics"},   Call{"GET", "/props"},      Call{"GET", "/live"},
      Call{"GET", "/v1/status"}, Call{"GET", "/model_info"}, Call{"GET", "/get_model_info"},
  };
  return kCalls;
}

std::span<const Adapter* const> Adapters() {
  static constexpr std::array kAdapters = {
      &kFak, &kDynamo, &kSglang, &kLlamaCpp, &kMlx, &kLlmd, &kVllm, &kAnthropic, &kOpenAi,
  };
  return kAdapters;
}

const Adapter* FindAdapter(std::string_view engine) {
  const auto all = Adapters();
  const auto found = std::find_if(all.begin(), all.end(), [engine](const Adapter* adapter) {
    return adapter->engine == engine;
  });
  return found == all.end() ? nullptr : *found;
}

std::string AdapterNames() {
  std::vector<std::string> names;
  for (const Adapter* adapter : Adapters()) {
    names.emplace_back(adapter->engine);
  }
  std::sort(names.begin(), names.end());
  return Join(names, ", ");
}

std::string_view SignalName(Signal signal) {
  switch (signal) {
    case Signal::kMetrics: return "metrics";
    case Signal::kKvEvents: return "kv_events";
    case Signal::kCacheReset: return "cache_reset";
    case Signal::kSleep: return "sleep";
    case Signal::kTokenizer: return "tokenizer";
    case Signal::kAbort: return "abort";
    case Signal::kMessages: return "messages";
    case Signal::kResponses: return "responses";
    case Signal::kEmbeddings: return "embeddings";
    case Signal::kSlots: return "slots";
    case Signal::kTemplate: return "apply_template";
  }
  return "";
}

}  // namespace fak::ride

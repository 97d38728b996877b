#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "ride/json_reads.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_error.h"

// One token that an engine is asked for to see whether it answers at all.
namespace fak::ride {
namespace {

// Short enough to be no block of anybody's cache.
constexpr std::string_view kPrompt = "1";

std::string BodyFor(wire::Surface surface, const std::string& model) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  if (!model.empty()) {
    json.Key("model").String(model);
  }
  if (surface == wire::Surface::kCompletion) {
    json.Key("prompt").String(kPrompt);
  } else {
    json.Key("messages").BeginArray().BeginObject();
    json.Key("role").String("user").Key("content").String(kPrompt);
    json.EndObject().EndArray();
  }
  json.Key("max_tokens").Int(1).EndObject();
  return body;
}

bool HasContent(const Reply& reply) {
  return !ArrayAt(reply.document, "choices").empty() || !ArrayAt(reply.document, "content").empty();
}

}  // namespace

driver::GenerationProbing UpstreamDriver::generation_probing() const {
  constexpr int kMsPerSecond = 1000;
  const Adapter* engine = adapter();
  if (engine == nullptr) {
    return {};
  }
  const int unasked_ms = engine->probes_generation ? options_.generation_probe_every_ms : 0;
  return {.every_ms =
              generation_probe_every_s_ ? *generation_probe_every_s_ * kMsPerSecond : unasked_ms,
          .beside_requests = engine->batches};
}

Result<Call> UpstreamDriver::GenerationCall(const Endpoint& known) const {
  const Adapter& engine = *known.adapter;
  std::string model = policy_.model.empty() ? std::string(engine.default_model) : policy_.model;
  if (model.empty()) {
    const std::lock_guard lock(mutex_);
    if (listed_.size() > 1 && engine.loads_models) {
      return Fail(Code::kUnsupported,
                  "it would have to load one of the models that it lists; say which to ask for");
    }
    model = listed_.empty() ? "" : listed_.front();
  }
  for (const wire::Surface surface :
       {wire::Surface::kCompletion, wire::Surface::kChat, wire::Surface::kMessages}) {
    const Route* route = FindRoute(engine, surface);
    // OpenAI's own completions are of models that its chats aren't of.
    if (route == nullptr || (surface == wire::Surface::kCompletion && &engine == &kOpenAi)) {
      continue;
    }
    Call call{"POST", std::string(route->path), BodyFor(surface, model)};
    if (policy_.rank && !engine.rank_header.empty()) {
      call.headers.Set(std::string(engine.rank_header), std::to_string(*policy_.rank));
    }
    return call;
  }
  return Fail(Code::kUnsupported, "it has no surface that generates");
}

Status UpstreamDriver::ReadGeneration(const Adapter& engine, const Reply& reply) const {
  if (reply.unsent) {
    return Fail(Code::kCancelled, reply.body);  // says nothing of it
  }
  if (reply.status == 0) {
    return Fail(Named({Code::kUpstreamError, reply.body}));
  }
  if (reply.status == 200 && HasContent(reply)) {
    return {};
  }
  Error error = reply.status != 200 ? UpstreamError(reply.status, reply.body, key())
                : reply.document.Find("error") != nullptr
                    ? ErrorUnder200(reply.document, reply.body, key())
                    : Error{Code::kUpstreamError, "200, and no content"};
  if (engine.refine != nullptr && reply.status != 200) {
    engine.refine(reply.status, reply.body, error);
  }
  if (const auto after = ParseUint(reply.headers.Get("retry-after").value_or(""))) {
    constexpr uint64_t kMostS = 3600;
    error.retry_after_s = static_cast<int>(std::min(*after, kMostS));
  }
  return Fail(Named(std::move(error)));
}

void UpstreamDriver::ProbeGeneration(int extra_ms, std::function<void(Status)> done) {
  const std::shared_ptr<const Endpoint> known = endpoint();
  if (known == nullptr || draining_.load()) {
    done(Fail(Code::kCancelled, "what runs at upstream " + spec_.name + " isn't known"));
    return;
  }
  Result<Call> call = GenerationCall(*known);
  if (!call) {
    done(Fail(std::move(call).error()));
    return;
  }
  loop_.Post([this, known, extra_ms, call = *std::move(call), done = std::move(done)] {
    if (calls_client_ == nullptr) {
      done(Fail(Code::kCancelled, "the server is shutting down"));
      return;
    }
    UpstreamTarget patient = target_;
    patient.call_ms = generation_probe_timeout_ms_ + extra_ms;
    const std::string asked = call.method + " " + call.path;
    AskAt(patient, *known->adapter, {call}, [this, known, asked, done](Result<Replies> replies) {
      if (!replies) {
        done(Fail(Code::kCancelled, replies.error().detail));
        return;
      }
      Status answered = ReadGeneration(*known->adapter, replies->At(asked));
      if (meter_) {
        meter_->CountGenerationProbe(answered.has_value());
      }
      done(std::move(answered));
    });
  });
}

}  // namespace fak::ride

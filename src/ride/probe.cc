#include "ride/probe.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"
#include "ride/json_reads.h"
#include "ride/upstream_error.h"

namespace fak::ride {

Result<UpstreamTarget> UpstreamTarget::Parse(const std::string& url, std::string api_key) {
  TRY_ASSIGN(net::Url parsed, net::ParseUrl(url));
  while (parsed.target.ends_with('/')) {
    parsed.target.pop_back();
  }
  if (parsed.target.ends_with("/v1")) {
    parsed.target.resize(parsed.target.size() - 3);
  }
  return UpstreamTarget{std::move(parsed.origin), std::move(parsed.target), std::move(api_key)};
}

net::HttpClientRequest UpstreamTarget::Request(const Adapter& adapter, const Call& call) const {
  net::HttpClientRequest request;
  request.method = call.method;
  request.origin = origin;
  request.target = prefix + call.path;
  request.timeouts = timeouts;
  request.body = call.body;
  request.headers.Add("accept", "*/*");
  if (!call.body.empty()) {
    request.headers.Add("content-type", "application/json");
  }
  for (const auto& [name, value] : call.headers) {
    request.headers.Add(name, value);
  }
  for (const auto& [name, value] : adapter.default_headers) {
    request.headers.Add(std::string(name), std::string(value));
  }
  if (!api_key.empty()) {
    adapter.key_header == KeyHeader::kBearer
        ? request.headers.Set("authorization", "Bearer " + api_key)
        : request.headers.Set("x-api-key", api_key);
  }
  return request;
}

struct CallSequence::State {
  State(net::HttpClient& its_client, const UpstreamTarget& its_target, const Adapter& its_adapter)
      : client(its_client), target(its_target), adapter(its_adapter) {}

  class Sink final : public net::HttpResponseSink {
   public:
    explicit Sink(std::shared_ptr<State> state) : state_(std::move(state)) {}
    void OnHead(int status, net::HttpHeaders headers) override {
      reply_.status = status;
      reply_.headers = std::move(headers);
    }
    void OnBody(std::string_view bytes) override {
      if (bytes.size() <= limits::kProbeBytesMax - reply_.body.size()) {
        reply_.body += bytes;
        return;
      }
      state_->exchange->Cancel();
      FailWith("an answer of more than " + std::to_string(limits::kProbeBytesMax) + " bytes");
      state_->Take(state_, std::move(reply_), /*maybe_there=*/true);
    }
    void OnDone(Status status) override {
      if (!status) {
        // Most servers of TLS close without a word when a client begins otherwise.
        const bool maybe_tls = status.error().code == Code::kUpstreamError &&
                               !state_->target.origin.tls && reply_.status == 0 &&
                               state_->next == 0;
        reply_.unreached = status.error().field == net::kUnreachedField;
        reply_.unsent = status.error().code == Code::kResourceExhausted;
        FailWith(status.error().detail + (maybe_tls ? " (if it speaks TLS, use https://)" : ""));
      } else if (Result<Json> document = ParseJson(reply_.body)) {
        reply_.document = *std::move(document);
      }
      state_->Take(state_, std::move(reply_), /*maybe_there=*/status.has_value());
    }

   private:
    void FailWith(std::string why) {
      reply_.status = 0;
      reply_.body = std::move(why);
    }

    const std::shared_ptr<State> state_;
    Reply reply_;
  };

  static void Next(const std::shared_ptr<State>& self) {
    if (self->next == self->calls.size()) {
      self->done(std::move(self->replies));
      return;
    }
    const Call& call = self->calls[self->next];
    net::HttpClientRequest request = self->target.Request(self->adapter, call);
    request.timeouts.total_ms = self->target.call_ms;
    self->exchange = self->client.Send(std::move(request), std::make_unique<Sink>(self));
  }
  void Take(const std::shared_ptr<State>& self, Reply reply, bool maybe_there) {
    if (dropped) {
      return;
    }
    const Call& call = calls[next++];
    // Nobody there: the other calls would only wait for the same.
    const bool stop = !maybe_there || (stop_when && stop_when(call, reply));
    replies.Add(call, std::move(reply));
    if (stop) {
      next = calls.size();
    }
    Next(self);
  }

  net::HttpClient& client;
  const UpstreamTarget target;
  const Adapter& adapter;
  std::vector<Call> calls;
  Done done;
  std::function<bool(const Call&, const Reply&)> stop_when;
  size_t next = 0;
  bool dropped = false;
  Replies replies;
  std::shared_ptr<net::HttpExchange> exchange;
};

CallSequence::CallSequence(net::HttpClient& client, const UpstreamTarget& target,
                           const Adapter& adapter, std::vector<Call> calls, Done done,
                           std::function<bool(const Call&, const Reply&)> stop_when)
    : state_(std::make_shared<State>(client, target, adapter)) {
  state_->calls = std::move(calls);
  state_->done = std::move(done);
  state_->stop_when = std::move(stop_when);
  State::Next(state_);
}

CallSequence::~CallSequence() {
  state_->dropped = true;
  if (state_->exchange != nullptr) {
    state_->exchange->Cancel();
  }
}

std::string AnsweredInWords(const std::string& asked, int status, std::string_view key) {
  const std::string_view so = !RefusesKey(status) ? ""
                              : key.empty() ? ": give --upstream-api-key or --upstream-api-key-file"
                                            : ": it doesn't take the key of --upstream-api-key or "
                                              "--upstream-api-key-file";
  return asked + " answered " + std::to_string(status) + std::string(so);
}

namespace {

tl::unexpected<Error> NoAnswer(const Reply& reply) {
  return Fail(Code::kUnavailable, reply.body,
              std::string(reply.unreached ? net::kUnreachedField : std::string_view()));
}

}  // namespace

Result<Identified> Identify(const Replies& replies, std::string_view key) {
  for (const Adapter* adapter : Adapters()) {
    if (std::string why = adapter->recognise(replies); !why.empty()) {
      return Identified{adapter, std::move(why)};
    }
  }
  const Reply& models = replies.At("GET /v1/models");
  if (models.status == 0) {
    return NoAnswer(models);
  }
  if (models.status == 400 && (models.body.find("HTTPS port") != std::string::npos ||
                               models.body.find("use https://") != std::string::npos)) {
    return Fail(Code::kUpstreamError, "it speaks TLS: use https://");
  }
  if (RefusesKey(models.status)) {
    return Fail(Code::kUpstreamError, AnsweredInWords("GET /v1/models", models.status, key));
  }
  return Fail(Code::kUpstreamError,
              "GET /v1/models answered " + std::to_string(models.status) +
                  " and nothing else tells which engine this is; say it, as in ENGINE+URL (" +
                  AdapterNames() + ")");
}

std::vector<Call> CallsOf(const Adapter& adapter) {
  std::vector<Call> calls = {{"GET", "/v1/models"}, {"GET", "/version"}};
  if (!adapter.describe_path.empty()) {
    calls.push_back({"GET", std::string(adapter.describe_path)});
  }
  for (const Check& check : adapter.checks) {
    const bool known = std::any_of(calls.begin(), calls.end(), [&check](const Call& call) {
      return call.method == check.method && call.path == check.path;
    });
    if (!check.method.empty() && !known) {
      calls.push_back(
          {std::string(check.method), std::string(check.path), std::string(check.body)});
    }
  }
  return calls;
}

namespace {

struct Meaning {
  Signal signal;
  std::string_view with;
  std::string_view without;
};

constexpr Meaning kMeanings[] = {
    {Signal::kMetrics, "its own figures can be shown", "fak shows only what it measures itself"},
    {Signal::kKvEvents, "fak can follow what its cache holds",
     "fak will know its cache only from what it routed there"},
    {Signal::kCacheReset, "fak can empty its cache, whole",
     "fak will not be able to evict anything there"},
    {Signal::kSleep, "fak can put it to sleep and wake it",
     "fak will not be able to put it to sleep"},
    {Signal::kTokenizer, "fak can count and key prompts with it",
     "fak will not be able to tokenize there; give it a tokenizer"},
    {Signal::kAbort, "work ends when its client leaves",
     "an answer that isn't streamed may run to its end when its client leaves"},
    {Signal::kMessages, "/v1/messages passes through", "/v1/messages is refused"},
    {Signal::kResponses, "/v1/responses passes through", "/v1/responses is refused"},
    {Signal::kEmbeddings, "/v1/embeddings passes through", "/v1/embeddings is refused"},
    {Signal::kSlots, "fak can save, restore and erase its slots",
     "fak will not be able to save or restore a slot there"},
    {Signal::kTemplate, "/apply-template passes through", "/apply-template is refused"},
};

bool IsServed(const Reply& reply) {
  return reply.status != 0 && reply.status != 404 && reply.status != 405 && reply.status != 501;
}

Endpoint::Finding Find(const Adapter& adapter, const Check& check, const Replies& replies,
                       std::string_view key) {
  Endpoint::Finding finding;
  finding.signal = check.signal;
  if (check.method.empty()) {
    finding.has = check.always && (check.signal != Signal::kAbort || adapter.cancel_stops_engine);
    finding.asked = "-";
    const bool measured = adapter.measured != nullptr && adapter.measured(replies);
    finding.seen = !check.always ? "it has no such thing"
                   : measured    ? "as measured"
                                 : "by its documents";
  } else {
    finding.asked = std::string(check.method) + " " + std::string(check.path);
    const Reply& reply = replies.At(finding.asked);
    finding.has = check.holds != nullptr ? check.holds(reply) : IsServed(reply);
    finding.seen = reply.status == 0 ? "no answer" : std::to_string(reply.status);
    const bool refused = RefusesKey(reply.status);
    const bool any_model = finding.has && check.served_without && !refused;
    finding.told = !refused && !any_model;
    if (any_model) {
      finding.seen += ": it is there, whether or not a model has it";
    } else if (finding.has && (reply.status == 400 || reply.status == 422)) {
      finding.seen += ": it is there, and refuses an empty request";
    } else if (refused || (!finding.has && reply.status >= 400)) {
      constexpr size_t kShown = 500;
      const std::string said = UpstreamError(reply.status, reply.body, key).detail;
      finding.seen +=
          ": " + ReplaceInvalidUtf8(said.substr(0, kShown)) + (said.size() > kShown ? "..." : "");
    }
    if (refused) {
      finding.means = key.empty() ? "it asks for a key" : "our key isn't taken there";
      return finding;
    }
  }
  for (const Meaning& meaning : kMeanings) {
    if (meaning.signal == check.signal) {
      finding.means = finding.has ? meaning.with : meaning.without;
      if (finding.has && check.signal == Signal::kCacheReset) {
        finding.means +=
            adapter.evicts_exactly ? ", or exactly what it is told" : ", never exactly";
      }
    }
  }
  return finding;
}

}  // namespace

Endpoint Conclude(const Identified& engine, const Replies& replies, std::string_view key) {
  Endpoint endpoint;
  endpoint.adapter = engine.adapter;
  endpoint.why = engine.why;
  const std::string models_asked = "GET /v1/models";
  for (const Json& model : ArrayAt(replies.At(models_asked).document, "data")) {
    if (std::string id = StringAt(model, "id"); !id.empty()) {
      endpoint.models.push_back(std::move(id));
    }
    endpoint.context_length = CountAt(model, "max_model_len", endpoint.context_length);
  }
  endpoint.models_asked = endpoint.context_asked = models_asked;
  if (const int status = replies.At(models_asked).status; RefusesKey(status)) {
    endpoint.why_no_models = AnsweredInWords(models_asked, status, key);
  }
  if (engine.adapter->describe != nullptr) {
    engine.adapter->describe(replies, endpoint);
  }
  if (endpoint.version.empty()) {
    endpoint.version_asked.clear();
  }
  if (endpoint.models.empty()) {
    endpoint.models_asked.clear();
  }
  if (endpoint.context_length == 0) {
    endpoint.context_asked.clear();
  }
  for (const Check& check : engine.adapter->checks) {
    endpoint.findings.push_back(Find(*engine.adapter, check, replies, key));
  }
  return endpoint;
}

Prober::Prober(net::HttpClient& client, UpstreamTarget target, const Adapter* maybe_adapter,
               Done done)
    : client_(client), target_(std::move(target)), done_(std::move(done)) {
  if (maybe_adapter != nullptr) {
    engine_ = {maybe_adapter, "said by the operator"};
    AskAll({});
    return;
  }
  const std::span<const Call> identify = IdentifyCalls();
  calls_ = std::make_unique<CallSequence>(
      client_, target_, kOpenAi, std::vector<Call>(identify.begin(), identify.end()),
      [this](Replies replies) {
        Result<Identified> engine = Identify(replies, target_.api_key);
        if (!engine) {
          done_(Fail(engine.error()));
          return;
        }
        engine_ = *std::move(engine);
        // With another key header the answers may be others.
        const bool same_key = engine_.adapter->key_header == kOpenAi.key_header;
        AskAll(same_key ? std::move(replies) : Replies());
      });
}

void Prober::AskAll(Replies known) {
  std::vector<Call> calls;
  for (Call& call : CallsOf(*engine_.adapter)) {
    if (!known.Has(call.method + " " + call.path)) {
      calls.push_back(std::move(call));
    }
  }
  calls_ =
      std::make_unique<CallSequence>(client_, target_, *engine_.adapter, std::move(calls),
                                     [this, known = std::move(known)](Replies replies) mutable {
                                       replies.AddAll(std::move(known));
                                       const Reply& models = replies.At("GET /v1/models");
                                       if (models.status == 0) {
                                         done_(NoAnswer(models));
                                         return;
                                       }
                                       done_(Conclude(engine_, replies, target_.api_key));
                                     });
}

Result<Endpoint> ProbeAndWait(const UpstreamTarget& target, const Adapter* maybe_adapter,
                              const net::TlsClientOptions& tls) {
  net::EventLoop loop;
  loop.Start("probe");
  TRY_ASSIGN(net::ProxyRules proxies, net::ProxyRules::FromEnvironment());
  TRY_ASSIGN(std::unique_ptr<net::HttpClient> client,
             net::HttpClient::Make(loop, {.tls = tls, .proxies = std::move(proxies)}));
  std::promise<Result<Endpoint>> found;
  std::unique_ptr<Prober> prober;
  loop.Post([&] {
    prober = std::make_unique<Prober>(
        *client, target, maybe_adapter,
        [&found](Result<Endpoint> endpoint) { found.set_value(std::move(endpoint)); });
  });
  Result<Endpoint> endpoint = found.get_future().get();
  loop.Invoke([&] {
    prober.reset();
    client.reset();
  });
  loop.Stop();
  return endpoint;
}

}  // namespace fak::ride

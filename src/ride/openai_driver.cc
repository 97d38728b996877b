#include "ride/openai_driver.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "ride/openai_relay.h"

namespace fak::ride {
namespace {

// The document that is sent: the client's own, with the edits of docs/engines.md.
Json EditDocument(const driver::Prepared& prepared, const std::string& model,
                  bool* withhold_usage) {
  Json document = *prepared.document;
  if (!model.empty()) {
    document.Set("model", model);
  }
  *withhold_usage = prepared.turn->stream && !prepared.turn->stream_include_usage;
  if (*withhold_usage) {
    Json options = Json::Object{};
    if (const Json* given = document.Find("stream_options");
        given != nullptr && given->is_object()) {
      options = *given;
    }
    options.Set("include_usage", true);
    document.Set("stream_options", std::move(options));
  }
  return document;
}

}  // namespace

// One request at the upstream. Loop thread.
class OpenAiDriver::Exchange {
 public:
  Exchange(OpenAiDriver& owner, std::shared_ptr<const driver::Prepared> prepared,
           std::shared_ptr<driver::EventSink> sink, bool withhold_usage)
      : owner_(owner),
        prepared_(std::move(prepared)),
        id_(prepared_->request_id),
        relay_(std::move(sink), prepared_->turn->stream, withhold_usage),
        deadline_(owner.loop_.timers(), [this] { owner_.End(id_, DeadlineError(*prepared_)); }) {
    if (prepared_->deadline_ns) {
      deadline_.ArmMs(std::max<int64_t>(
          0, (*prepared_->deadline_ns - owner.loop_.NowNs() + kNsPerMs - 1) / kNsPerMs));
    }
  }

  // The client's sink; the exchange itself is kept by the driver.
  class Sink final : public net::HttpResponseSink {
   public:
    explicit Sink(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
    void OnHead(int status, net::HttpHeaders headers) override {
      exchange_->OnHead(status, headers);
    }
    void OnBody(std::string_view bytes) override { exchange_->OnBody(bytes); }
    void OnDone(Status status) override { exchange_->OnDone(std::move(status)); }

   private:
    const std::shared_ptr<Exchange> exchange_;
  };

  void SetHandle(std::shared_ptr<net::HttpExchange> handle) { handle_ = std::move(handle); }

  void Abort(Error error) {
    if (handle_ != nullptr) {
      handle_->Cancel();
    }
    relay_.Fail(std::move(error));
  }

 private:
  void OnHead(int status, const net::HttpHeaders& headers) {
    status_ = status;
    if (const auto after = headers.Get("retry-after")) {
      retry_after_ = std::string(*after);
    }
  }

  void OnBody(std::string_view bytes) {
    if (status_ == 200) {
      relay_.Feed(bytes);
    } else if (error_body_.size() < limits::kUpstreamErrorBytesMax) {
      error_body_ += bytes;
    }
    if (relay_.ended()) {
      handle_->Cancel();
      owner_.Forget(id_);
    }
  }

  void OnDone(Status status) {
    if (!status) {
      relay_.Fail(status.error());
    } else if (status_ != 200) {
      Error error = UpstreamError(status_, error_body_);
      error.retry_after_s = std::atoi(retry_after_.c_str());
      relay_.Fail(std::move(error));
    } else {
      relay_.Finish();
    }
    owner_.Forget(id_);
  }

  OpenAiDriver& owner_;
  const std::shared_ptr<const driver::Prepared> prepared_;
  const std::string& id_;
  OpenAiRelay relay_;
  net::Timer deadline_;
  std::shared_ptr<net::HttpExchange> handle_;
  int status_ = 0;
  std::string retry_after_;
  std::string error_body_;
};

// GET /v1/models.
class OpenAiDriver::Probe final : public net::HttpResponseSink {
 public:
  explicit Probe(OpenAiDriver& owner) : owner_(owner) {}
  void OnHead(int status, net::HttpHeaders) override { status_ = status; }
  void OnBody(std::string_view bytes) override {
    if (body_.size() < limits::kUpstreamErrorBytesMax) {
      body_ += bytes;
    }
  }
  void OnDone(Status done) override {
    if (!done) {
      owner_.ProbeFailed(done.error().detail);
      return;
    }
    if (status_ != 200) {
      owner_.ProbeFailed(owner_.spec_.url + ": " + UpstreamError(status_, body_).detail);
      return;
    }
    std::vector<std::string> models;
    int32_t context = 0;
    const Result<Json> document = ParseJson(body_);
    const Json* data = document ? document->Find("data") : nullptr;
    if (data == nullptr || !data->is_array()) {
      owner_.ProbeFailed(owner_.spec_.url + ": its /v1/models is no list of models");
      return;
    }
    for (const Json& model : data->array()) {
      const Json* id = model.Find("id");
      const Json* length = model.Find("max_model_len");
      if (id != nullptr && id->is_string()) {
        models.push_back(id->string());
      }
      if (length != nullptr && length->is_integer()) {
        context = static_cast<int32_t>(*length->AsInt());
      }
    }
    owner_.TakeModels(std::move(models), context);
  }

 private:
  OpenAiDriver& owner_;
  int status_ = 0;
  std::string body_;
};

Result<std::unique_ptr<OpenAiDriver>> OpenAiDriver::Make(const driver::ReplicaSpec& spec,
                                                         OpenAiDriverOptions options) {
  TRY_ASSIGN(net::Url base, net::ParseUrl(spec.url));
  while (base.target.ends_with('/')) {
    base.target.pop_back();
  }
  if (base.target.ends_with("/v1")) {
    base.target.resize(base.target.size() - 3);
  }
  std::unique_ptr<OpenAiDriver> made(new OpenAiDriver(spec, std::move(base), std::move(options)));
  TRY_ASSIGN(made->client_, net::HttpClient::Make(made->loop_, {.tls = made->options_.tls}));
  return made;
}

OpenAiDriver::OpenAiDriver(driver::ReplicaSpec spec, net::Url base, OpenAiDriverOptions options)
    : spec_(std::move(spec)),
      base_(std::move(base)),
      options_(std::move(options)),
      why_down_(spec_.url + ": not probed yet") {
  auto capabilities = std::make_shared<driver::Capabilities>();
  capabilities->engine = "openai";
  capabilities->tool_calls = true;
  capabilities->reasoning = true;
  capabilities->grammars = true;
  capabilities->images = true;
  capabilities_ = std::move(capabilities);
}

OpenAiDriver::~OpenAiDriver() {
  Stop();
}

std::shared_ptr<const driver::Capabilities> OpenAiDriver::capabilities() const {
  const std::lock_guard lock(mutex_);
  return capabilities_;
}

driver::LoadReport OpenAiDriver::Load() const {
  driver::LoadReport report;
  report.running = running_.load();
  const std::lock_guard lock(mutex_);
  report.ready = up_ && started_ && !draining_.load();
  report.why_not = report.ready ? "" : draining_.load() ? "draining" : why_down_;
  return report;
}

net::HttpClientRequest OpenAiDriver::Request(std::string_view method, std::string_view path) const {
  net::HttpClientRequest request;
  request.method = std::string(method);
  request.origin = base_.origin;
  request.target = base_.target + std::string(path);
  request.timeouts = options_.timeouts;
  request.headers.Add("accept", "*/*");
  if (!spec_.api_key.empty()) {
    request.headers.Add("authorization", "Bearer " + spec_.api_key);
  }
  return request;
}

Status OpenAiDriver::Start() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(started_, true)) {
      return {};
    }
  }
  loop_.Start("upstream");
  loop_.Post([this] {
    probe_timer_ = std::make_unique<net::Timer>(loop_.timers(), [this] { StartProbe(); });
    StartProbe();
  });
  return {};
}

void OpenAiDriver::StartProbe() {
  client_->Send(Request("GET", "/v1/models"), std::make_unique<Probe>(*this));
}

void OpenAiDriver::TakeModels(std::vector<std::string> models, int32_t context) {
  {
    const std::lock_guard lock(mutex_);
    auto capabilities = std::make_shared<driver::Capabilities>(*capabilities_);
    capabilities->models = std::move(models);
    capabilities->context_length = context;
    capabilities_ = std::move(capabilities);
    up_ = true;
  }
  probe_timer_->ArmMs(options_.probe_every_ms);
}

void OpenAiDriver::ProbeFailed(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    up_ = false;
    why_down_ = std::move(why);
  }
  probe_timer_->ArmMs(options_.probe_every_ms);
}

Status OpenAiDriver::Admit(std::shared_ptr<const driver::Prepared> prepared,
                           std::shared_ptr<driver::EventSink> sink) {
  if (draining_.load()) {
    return Fail(Code::kUnavailable, "the server is shutting down");
  }
  {
    const std::lock_guard lock(mutex_);
    if (!started_) {
      return Fail(Code::kUnavailable, "the upstream driver was not started");
    }
  }
  running_.fetch_add(1);
  loop_.Post([this, prepared = std::move(prepared), sink = std::move(sink)]() mutable {
    Send(std::move(prepared), std::move(sink));
  });
  return {};
}

void OpenAiDriver::Send(std::shared_ptr<const driver::Prepared> prepared,
                        std::shared_ptr<driver::EventSink> sink) {
  const std::string id = prepared->request_id;
  if (open_.contains(id)) {
    running_.fetch_sub(1);
    sink->OnEvent(wire::Failed{{Code::kAlreadyExists, "request id " + id + " is in use already"}});
    return;
  }
  bool withhold_usage = false;
  const Json document = EditDocument(*prepared, spec_.model, &withhold_usage);
  const bool chat = prepared->turn->surface == wire::Surface::kChat;
  net::HttpClientRequest request =
      Request("POST", chat ? "/v1/chat/completions" : "/v1/completions");
  request.headers.Add("content-type", "application/json");
  request.headers.Add("x-request-id", prepared->shown_id.empty() ? id : prepared->shown_id);
  if (!prepared->traceparent.empty()) {
    request.headers.Add("traceparent", prepared->traceparent);
  }
  request.body = document.Dump();
  auto exchange = std::make_shared<Exchange>(*this, prepared, std::move(sink), withhold_usage);
  open_.emplace(id, exchange);
  exchange->SetHandle(
      client_->Send(std::move(request), std::make_unique<Exchange::Sink>(exchange)));
}

void OpenAiDriver::Forget(const std::string& request_id) {
  if (open_.erase(request_id) == 0) {
    return;
  }
  running_.fetch_sub(1);
  if (open_.empty()) {
    for (const std::function<void()>& done : std::exchange(drained_, {})) {
      done();
    }
  }
}

void OpenAiDriver::Cancel(std::string_view request_id) {
  loop_.Post([this, id = std::string(request_id)] { End(id, {Code::kCancelled, "cancelled"}); });
}

void OpenAiDriver::End(const std::string& request_id, Error error) {
  if (const auto found = open_.find(request_id); found != open_.end()) {
    const std::shared_ptr<Exchange> exchange = found->second;
    exchange->Abort(std::move(error));
    Forget(request_id);
  }
}

void OpenAiDriver::Drain(std::function<void()> done) {
  draining_.store(true);
  loop_.Post([this, done = std::move(done)] {
    if (open_.empty()) {
      done();
    } else {
      drained_.push_back(done);
    }
  });
}

void OpenAiDriver::Stop() {
  draining_.store(true);
  loop_.Invoke([this] {
    for (auto& [id, exchange] : std::exchange(open_, {})) {
      exchange->Abort({Code::kUnavailable, "the server is shutting down"});
    }
    probe_timer_.reset();
    client_.reset();
  });
  loop_.Stop();
}

}  // namespace fak::ride

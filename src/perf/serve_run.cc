#include "perf/serve_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/strings.h"
#include "net/event_loop.h"
#include "net/http_client.h"

namespace fak::perf {
namespace {

constexpr int64_t kLookNs = 100 * kNsPerMs;

Result<std::unique_ptr<net::HttpClient>> MakeClient(net::EventLoop& loop,
                                                    const std::string& ca_file) {
  TRY_ASSIGN(net::ProxyRules proxies, net::ProxyRules::FromEnvironment());
  net::HttpClientOptions options;
  options.connections_per_origin_max = kServeOpenMax;
  options.idle_per_origin_max = kServeOpenMax;
  options.waiting_per_origin_max = kServeOpenMax;
  options.tls = {.ca_file = ca_file};
  options.proxies = std::move(proxies);
  return net::HttpClient::Make(loop, std::move(options));
}

net::HttpClientRequest Request(const ServeTarget& target, std::string path) {
  net::HttpClientRequest request;
  request.origin = target.origin;
  request.target = target.base + std::move(path);
  if (!target.key.empty()) {
    request.headers.Add("authorization", "Bearer " + target.key);
  }
  return request;
}

ServeFault FaultOf(const Error& error) {
  switch (error.code) {
    case Code::kDeadlineExceeded: return ServeFault::kTimeout;
    case Code::kUnavailable:
    case Code::kResourceExhausted: return ServeFault::kConnect;
    default: return ServeFault::kCutShort;
  }
}

// The message of an error's body, or its first line.
std::string MessageOf(const std::string& body) {
  if (const auto document = ParseJson(body)) {
    const Json* error = document->Find("error");
    const Json* message = (error != nullptr ? *error : *document).Find("message");
    if (message != nullptr && message->is_string()) {
      return message->string();
    }
  }
  return body.substr(0, body.find('\n'));
}

// A run on its way. What both threads touch is under the mutex.
class Runner {
 public:
  Runner(const ServeTarget& target, std::span<const ServeRequest> workload,
         const ServeOptions& options)
      : target_(target), workload_(workload), options_(options), records_(workload.size()) {}

  Result<ServeRun> Run(const std::function<void(const ServeProgress&)>& on_progress,
                       const std::atomic<bool>& stop);

 private:
  class Sink;

  int64_t Now() const { return Clock::Real().NowNs() - started_ns_; }
  uint32_t OpenMax() const {
    return options_.concurrency == 0 ? kServeOpenMax
                                     : std::min(options_.concurrency, kServeOpenMax);
  }
  // When the next request may leave: INT64_MAX while too many are open. Under the mutex.
  int64_t NextNs(const ServeProgress& now) const {
    return now.sent - now.done >= OpenMax() ? INT64_MAX
           : options_.closed_loop           ? 0
                                            : workload_[now.sent].at_ns;
  }
  void Send(net::HttpClient& client, uint32_t index);  // loop
  void OnDone(uint32_t index);                         // loop

  const ServeTarget& target_;
  const std::span<const ServeRequest> workload_;
  const ServeOptions& options_;
  std::vector<ServeRecord> records_;  // one a request, each written on the loop alone until done
  int64_t started_ns_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  ServeProgress progress_;  // guarded by mutex_
};

class Runner::Sink : public net::HttpResponseSink {
 public:
  Sink(Runner& runner, const ServeRequest& asked, ServeRecord& record)
      : runner_(runner),
        record_(record),
        stream_(record,
                {.output_tokens = asked.output_tokens, .prompt_bytes = asked.prompt.size()}) {}

  void OnHead(int status, net::HttpHeaders) override { record_.status = status; }
  void OnBody(std::string_view bytes) override {
    if (record_.status / 100 == 2) {
      stream_.Feed(bytes, runner_.Now());
    } else {
      error_ += bytes.substr(0, kServeErrorBytesMax - std::min(kServeErrorBytesMax, error_.size()));
    }
  }
  void OnDone(Status status) override {
    if (record_.fault == ServeFault::kNone) {
      if (!status) {
        record_.fault = FaultOf(status.error());
        record_.why = status.error().detail;
      } else if (record_.status / 100 != 2) {
        record_.fault = ServeFault::kStatus;
        record_.why = std::to_string(record_.status) + ": " + MessageOf(error_);
      }
    }
    stream_.Finish(runner_.Now());
    runner_.OnDone(record_.index);
  }

 private:
  Runner& runner_;
  ServeRecord& record_;
  ServeStream stream_;
  std::string error_;
};

void Runner::Send(net::HttpClient& client, uint32_t index) {
  const ServeRequest& planned = workload_[index];
  ServeRecord& record = records_[index];
  record.index = index;
  net::HttpClientRequest request =
      Request(target_, options_.chat ? "/v1/chat/completions" : "/v1/completions");
  request.method = "POST";
  request.headers.Add("content-type", "application/json");
  request.body = ServeBody(target_, options_, planned);
  const auto timeout_ms = static_cast<int>(options_.timeout_ns / kNsPerMs);
  request.timeouts = {.first_byte_ms = timeout_ms, .idle_ms = timeout_ms, .total_ms = timeout_ms};
  record.sent_ns = Now();
  record.planned_ns = options_.closed_loop ? record.sent_ns : planned.at_ns;
  client.Send(std::move(request), std::make_unique<Sink>(*this, planned, record));
}

void Runner::OnDone(uint32_t index) {
  const std::scoped_lock lock(mutex_);
  ++progress_.done;
  progress_.failed += records_[index].fault != ServeFault::kNone ? 1 : 0;
  changed_.notify_one();
}

Result<ServeRun> Runner::Run(const std::function<void(const ServeProgress&)>& on_progress,
                             const std::atomic<bool>& stop) {
  net::EventLoop loop;
  loop.Start("bench");
  TRY_ASSIGN(std::unique_ptr<net::HttpClient> client, MakeClient(loop, options_.ca_file));
  started_ns_ = Clock::Real().NowNs();
  ServeRun run;
  std::unique_lock lock(mutex_);
  while (progress_.done < workload_.size() && !run.interrupted) {
    const int64_t now = Now();
    const int64_t next = progress_.sent < workload_.size() ? NextNs(progress_) : INT64_MAX;
    if (next <= now) {
      const uint32_t index = progress_.sent++;
      lock.unlock();
      loop.Post([this, &client, index] { Send(*client, index); });
      lock.lock();
      continue;
    }
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(next - now, kLookNs)));
    run.interrupted = stop.load();
    if (on_progress != nullptr) {
      const ServeProgress progress = progress_;
      lock.unlock();
      on_progress(progress);
      lock.lock();
    }
  }
  records_.resize(progress_.sent);
  lock.unlock();
  // After the sends that are still on their way there; what is open isn't told any more.
  loop.Invoke([&client] { client.reset(); });
  loop.Stop();
  for (ServeRecord& record : records_) {
    if (record.done_ns == 0) {
      record.fault = ServeFault::kCancelled;
      record.done_ns = Now();
    }
    run.duration_ns = std::max(run.duration_ns, record.done_ns);
  }
  run.records = std::move(records_);
  return run;
}

}  // namespace

Result<ServeTarget> ParseServeTarget(const std::string& text) {
  // A scheme comes before any "=" of a query, a name before the scheme.
  const size_t equals = text.find('=');
  const bool named = equals != std::string::npos && equals < text.find("://");
  TRY_ASSIGN(const net::Url url, net::ParseUrl(named ? text.substr(equals + 1) : text));
  ServeTarget target;
  target.origin = url.origin;
  target.base = url.target;
  if (url.target.find('?') != std::string::npos || (named && equals == 0)) {
    return Fail(Code::kInvalidArgument, "must be NAME=URL or URL, without a query", "--target");
  }
  while (target.base.ends_with('/')) {
    target.base.pop_back();
  }
  if (target.base.ends_with("/v1")) {
    target.base.resize(target.base.size() - 3);
  }
  target.name =
      named ? text.substr(0, equals) : url.origin.host + ":" + std::to_string(url.origin.port);
  return target;
}

Result<std::vector<std::string>> AskModels(const ServeTarget& target, const std::string& ca_file) {
  constexpr size_t kBytesMax = 4 * 1024 * 1024;
  net::EventLoop loop;
  loop.Start("bench");
  TRY_ASSIGN(const auto client, MakeClient(loop, ca_file));
  TRY_ASSIGN(const net::HttpResponse response,
             net::FetchAndWait(loop, *client, Request(target, "/v1/models"), kBytesMax));
  if (response.status != 200) {
    return Fail(Code::kUpstreamError, target.name + ": GET /v1/models answered " +
                                          std::to_string(response.status) + ": " +
                                          MessageOf(response.body.substr(0, kServeErrorBytesMax)));
  }
  TRY_ASSIGN(const Json document, ParseJson(response.body));
  std::vector<std::string> models;
  const Json* data = document.Find("data");
  if (data != nullptr && data->is_array()) {
    for (const Json& model : data->array()) {
      const Json* id = model.Find("id");
      if (id != nullptr && id->is_string()) {
        models.push_back(id->string());
      }
    }
  }
  return models;
}

std::string ServeBody(const ServeTarget& target, const ServeOptions& options,
                      const ServeRequest& request) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("model").String(target.model);
  if (options.chat) {
    json.Key("messages").BeginArray().BeginObject();
    json.Key("role").String("user").Key("content").String(request.prompt);
    json.EndObject().EndArray();
  } else {
    json.Key("prompt").String(request.prompt);
  }
  json.Key("max_tokens").Uint(request.output_tokens);
  json.Key("temperature").Double(options.temperature);
  if (options.ignore_eos) {
    json.Key("ignore_eos").Bool(true);
  }
  json.Key("stream").Bool(true).Key("stream_options");
  json.BeginObject().Key("include_usage").Bool(true).EndObject().EndObject();
  return body;
}

Result<ServeRun> RunServe(const ServeTarget& target, std::span<const ServeRequest> workload,
                          const ServeOptions& options,
                          const std::function<void(const ServeProgress&)>& on_progress,
                          const std::atomic<bool>& stop) {
  return Runner(target, workload, options).Run(on_progress, stop);
}

}  // namespace fak::perf

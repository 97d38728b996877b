#include "fleet/discovery_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/proxy.h"

namespace fak::fleet {
namespace {

constexpr int kCallMs = 5'000;
constexpr size_t kRefusalBytesMax = 4096;

// What services say of an error: {"message": ...}, or {"error": {"message": ...}}.
std::string MessageIn(const std::string& body) {
  const Result<Json> document = ParseJson(body);
  const Json* error = document ? document->Find("error") : nullptr;
  const Json* message = document ? document->Find("message") : nullptr;
  if (message == nullptr && error != nullptr) {
    message = error->is_string() ? error : error->Find("message");
  }
  return message != nullptr && message->is_string() ? ": " + message->string() : "";
}

Error Refused(const net::Origin& origin, int status, const std::string& body) {
  Error error{Code::kUpstreamError,
              origin.ToString() + " answered " + std::to_string(status) + MessageIn(body)};
  error.upstream_status = status;
  return error;
}

}  // namespace

// Thread of the loop.
class DiscoveryClient::Lines final : public net::HttpResponseSink {
 public:
  explicit Lines(std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)) {}

  void OnHead(int status, net::HttpHeaders) override {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->status = status;
  }
  void OnBody(std::string_view bytes) override {
    const std::lock_guard lock(inbox_->mutex);
    if (inbox_->status != 200) {
      inbox_->refusal.append(
          bytes.substr(0, kRefusalBytesMax - std::min(kRefusalBytesMax, inbox_->refusal.size())));
      return;
    }
    for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      inbox_->partial += bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
      Push(std::exchange(inbox_->partial, {}));
    }
    inbox_->partial += bytes;
    if (inbox_->partial.size() > kDiscoveryAnswerBytesMax) {
      Fail("a line without end");
    }
    inbox_->wake.notify_all();
  }
  void OnDone(Status status) override {
    const std::lock_guard lock(inbox_->mutex);
    if (!inbox_->ended) {
      inbox_->ended = true;
      inbox_->how = std::move(status);
      if (!inbox_->partial.empty()) {
        Push(std::exchange(inbox_->partial, {}));
      }
    }
    inbox_->wake.notify_all();
  }

 private:
  void Push(std::string line) {
    if (inbox_->lines.size() >= kDiscoveryLinesMax) {
      Fail("more came than was read");
    } else if (!line.empty()) {
      inbox_->lines.push_back(std::move(line));
    }
  }
  void Fail(std::string what) {
    if (!inbox_->ended) {
      inbox_->ended = true;
      inbox_->how = fak::Fail(Code::kUpstreamError, std::move(what));
    }
  }

  const std::shared_ptr<Inbox> inbox_;
};

Result<std::unique_ptr<DiscoveryClient>> DiscoveryClient::Make(const std::string& ca_file) {
  std::unique_ptr<DiscoveryClient> made(new DiscoveryClient());
  TRY_ASSIGN(net::ProxyRules proxies, net::ProxyRules::FromEnvironment());
  made->loop_.Start("discovery");
  TRY_ASSIGN(made->client_, net::HttpClient::Make(made->loop_, {.tls = {.ca_file = ca_file},
                                                                .proxies = std::move(proxies)}));
  return made;
}

DiscoveryClient::~DiscoveryClient() {
  client_.reset();
  loop_.Stop();
}

Result<Json> DiscoveryClient::Ask(net::HttpClientRequest request) {
  const net::Origin origin = request.origin;
  request.timeouts.first_byte_ms = kCallMs;
  request.timeouts.total_ms = kCallMs;
  TRY_ASSIGN(const net::HttpResponse response,
             net::FetchAndWait(loop_, *client_, std::move(request), kDiscoveryAnswerBytesMax));
  if (response.status != 200) {
    return fak::Fail(Refused(origin, response.status, response.body));
  }
  return ParseJson(response.body);
}

std::optional<std::string> DiscoveryClient::NextLine() {
  std::unique_lock lock(inbox_->mutex);
  inbox_->wake.wait(lock,
                    [this] { return inbox_->stopped || inbox_->ended || !inbox_->lines.empty(); });
  if (inbox_->stopped || inbox_->lines.empty()) {
    return std::nullopt;
  }
  std::string line = std::move(inbox_->lines.front());
  inbox_->lines.pop_front();
  return line;
}

Status DiscoveryClient::Follow(net::HttpClientRequest request,
                               FunctionRef<Status(const Json&)> on_document) {
  const net::Origin origin = request.origin;
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->lines.clear();
    inbox_->partial.clear();
    inbox_->ended = false;
    inbox_->status = 0;
    inbox_->refusal.clear();
    inbox_->how = {};
  }
  request.keep_connection = false;
  request.timeouts.first_byte_ms = kCallMs;
  std::shared_ptr<net::HttpExchange> exchange;
  loop_.Invoke(
      [&] { exchange = client_->Send(std::move(request), std::make_unique<Lines>(inbox_)); });
  Status done;
  while (const std::optional<std::string> line = NextLine()) {
    const Result<Json> document = ParseJson(*line);
    done = document ? on_document(*document) : Status(fak::Fail(document.error()));
    if (!done) {
      break;
    }
  }
  loop_.Invoke([&] { exchange->Cancel(); });
  const std::lock_guard lock(inbox_->mutex);
  if (!done || inbox_->stopped) {
    return done;
  }
  if (inbox_->status != 0 && inbox_->status != 200) {
    return fak::Fail(Refused(origin, inbox_->status, inbox_->refusal));
  }
  const bool quiet =
      !inbox_->how && inbox_->status == 200 && inbox_->how.error().code == Code::kDeadlineExceeded;
  return quiet ? Status() : std::move(inbox_->how);
}

bool DiscoveryClient::Pause(int64_t ms) {
  std::unique_lock lock(inbox_->mutex);
  return !inbox_->wake.wait_for(lock, std::chrono::milliseconds(ms),
                                [this] { return inbox_->stopped; });
}

bool DiscoveryClient::stopped() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->stopped;
}

void DiscoveryClient::Stop() {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->stopped = true;
  inbox_->wake.notify_all();
}

}  // namespace fak::fleet

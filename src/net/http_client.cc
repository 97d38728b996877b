#include "net/http_client.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "net/client_impl.h"
#include "net/event_loop_impl.h"
#include "net/tls_context.h"
#include "net/upstream_exchange.h"

namespace fak::net {

HttpClient::Impl::Impl(EventLoop& event_loop, HttpClientOptions client_options,
                       std::unique_ptr<asio::ssl::context> tls_context)
    : loop(event_loop),
      options(std::move(client_options)),
      tls_(std::move(tls_context)),
      sweep_(loop.timers(), [this] { Sweep(); }) {}

std::shared_ptr<UpstreamExchange> HttpClient::Impl::Send(HttpClientRequest request,
                                                         std::unique_ptr<HttpResponseSink> sink) {
  const auto exchange =
      std::make_shared<UpstreamExchange>(shared_from_this(), std::move(request), std::move(sink));
  exchanges_.emplace(exchange.get(), exchange);
  exchange->Start();
  return exchange;
}

void HttpClient::Impl::Acquire(const std::shared_ptr<UpstreamExchange>& exchange,
                               const Origin& origin, bool fresh) {
  Pool& pool = pools_[origin];
  if (!fresh && pool.waiting.empty()) {
    if (std::shared_ptr<ClientConnection> kept = TakeIdle(pool)) {
      ++totals.reuses_total;
      exchange->Use(std::move(kept));
      return;
    }
  }
  if (pool.open < options.connections_per_origin_max) {
    ConnectNew(exchange, origin);
  } else if (pool.waiting.size() < options.waiting_per_origin_max) {
    pool.waiting.push_back(exchange);
  } else {
    Error full = {Code::kResourceExhausted, origin.ToString() + ": " +
                                                std::to_string(pool.waiting.size()) +
                                                " requests wait for a connection already"};
    loop.Post([exchange, full = std::move(full)] { exchange->Fail(full); });
  }
}

// OpenSSL takes a tenth of a second to read the system's certificates, which a client that never
// speaks TLS shall not pay.
Result<asio::ssl::context*> HttpClient::Impl::Tls() {
  if (tls_ == nullptr) {
    TRY_ASSIGN(tls_, MakeClientContext(options.tls));
  }
  return tls_.get();
}

void HttpClient::Impl::ConnectNew(const std::shared_ptr<UpstreamExchange>& exchange,
                                  const Origin& origin) {
  Result<asio::ssl::context*> tls = nullptr;
  if (origin.tls) {
    tls = Tls();
  }
  if (!tls) {
    loop.Post([exchange, error = std::move(tls).error()] { exchange->Fail(error); });
    return;
  }
  ++pools_[origin].open;
  ++totals.connects_total;
  const auto connection = std::make_shared<ClientConnection>(loop.impl().context, origin);
  exchange->Connecting(connection);
  Connect(connection, options.proxies.For(origin), *tls, options.tls,
          [exchange, connection](Status status) {
            if (exchange->ended()) {
              return;
            }
            if (status) {
              exchange->Use(connection);
            } else {
              exchange->Fail(std::move(status).error());
            }
          });
}

std::shared_ptr<ClientConnection> HttpClient::Impl::TakeIdle(Pool& pool) {
  const int64_t oldest_ns = loop.NowNs() - options.keep_idle_ms * kNsPerMs;
  while (!pool.idle.empty()) {
    std::shared_ptr<ClientConnection> connection = std::move(pool.idle.back());
    pool.idle.pop_back();
    if (connection->idle_since_ns > oldest_ns && !connection->IsStale()) {
      return connection;
    }
    connection->Close(/*reset=*/false);
    --pool.open;
  }
  return nullptr;
}

void HttpClient::Impl::Release(std::shared_ptr<ClientConnection> connection, bool reusable) {
  const Origin origin = connection->origin;
  Pool& pool = pools_[origin];
  if (reusable && !stopped_ && pool.idle.size() < options.idle_per_origin_max) {
    connection->used_before = true;
    connection->idle_since_ns = loop.NowNs();
    connection->in.Shrink(0);
    pool.idle.push_back(std::move(connection));
    if (!sweep_.armed()) {
      sweep_.ArmMs(options.keep_idle_ms);
    }
  } else {
    connection->Close(/*reset=*/false);
    --pool.open;
  }
  if (!pool.waiting.empty()) {
    // Not from inside here: the caller is in the middle of ending its exchange.
    loop.Post([self = shared_from_this(), origin] { self->ServeWaiting(origin); });
  }
}

void HttpClient::Impl::ServeWaiting(const Origin& origin) {
  const auto found = pools_.find(origin);
  if (found == pools_.end()) {
    return;
  }
  Pool& pool = found->second;
  while (!pool.waiting.empty()) {
    std::shared_ptr<ClientConnection> kept = TakeIdle(pool);
    if (kept == nullptr && pool.open >= options.connections_per_origin_max) {
      return;
    }
    const std::shared_ptr<UpstreamExchange> next = std::move(pool.waiting.front());
    pool.waiting.pop_front();
    if (kept != nullptr) {
      ++totals.reuses_total;
      next->Use(std::move(kept));
    } else {
      ConnectNew(next, origin);
    }
  }
}

void HttpClient::Impl::Forget(UpstreamExchange* exchange, const Origin& origin) {
  exchanges_.erase(exchange);
  const auto found = pools_.find(origin);
  if (found == pools_.end()) {
    return;
  }
  Pool& pool = found->second;
  std::erase_if(pool.waiting,
                [exchange](const auto& waiting) { return waiting.get() == exchange; });
  if (pool.open == 0 && pool.waiting.empty()) {
    pools_.erase(found);
  }
}

// Closes kept connections that are too old.
void HttpClient::Impl::Sweep() {
  const int64_t now_ns = loop.NowNs();
  const int64_t keep_ns = options.keep_idle_ms * kNsPerMs;
  int64_t next_ns = INT64_MAX;
  for (auto at = pools_.begin(); at != pools_.end();) {
    Pool& pool = at->second;
    pool.open -= std::erase_if(pool.idle, [&](const auto& connection) {
      const bool old = connection->idle_since_ns + keep_ns <= now_ns;
      if (old) {
        connection->Close(/*reset=*/false);
      } else {
        next_ns = std::min(next_ns, connection->idle_since_ns + keep_ns);
      }
      return old;
    });
    at = pool.open == 0 && pool.waiting.empty() ? pools_.erase(at) : std::next(at);
  }
  if (next_ns != INT64_MAX) {
    sweep_.ArmMs((next_ns - now_ns) / kNsPerMs + 1);
  }
}

void HttpClient::Impl::Stop() {
  stopped_ = true;
  sweep_.Disarm();
  while (!exchanges_.empty()) {
    const std::shared_ptr<UpstreamExchange> exchange = exchanges_.begin()->second;
    exchange->Cancel();
  }
  for (auto& [origin, pool] : pools_) {
    for (const auto& connection : pool.idle) {
      connection->Close(/*reset=*/false);
    }
  }
  pools_.clear();
}

HttpClientStats HttpClient::Impl::Stats() const {
  HttpClientStats stats = totals;
  for (const auto& [origin, pool] : pools_) {
    stats.connections += pool.open;
    stats.idle += pool.idle.size();
    stats.waiting += pool.waiting.size();
  }
  return stats;
}

HttpClient::HttpClient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpClient>> HttpClient::Make(EventLoop& loop, HttpClientOptions options) {
  std::unique_ptr<asio::ssl::context> tls;
  if (!options.tls.ca_file.empty() || options.tls_at_once) {
    TRY_ASSIGN(tls, MakeClientContext(options.tls));
  }
  auto impl = std::make_shared<Impl>(loop, std::move(options), std::move(tls));
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(impl)));  // tidy: allow new: private
}

HttpClient::~HttpClient() {
  impl_->loop.Invoke([this] { impl_->Stop(); });
}

std::shared_ptr<HttpExchange> HttpClient::Send(HttpClientRequest request,
                                               std::unique_ptr<HttpResponseSink> sink) {
  DCHECK(impl_->loop.InLoop());
  return std::make_shared<HttpExchange>(impl_->Send(std::move(request), std::move(sink)));
}

HttpClientStats HttpClient::stats() const {
  return impl_->Stats();
}

namespace {

// Collects a response for a thread that waits for it.
class WaitingSink : public HttpResponseSink {
 public:
  explicit WaitingSink(size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}
  // The client went before the exchange ended.
  ~WaitingSink() override { Give(Fail(Code::kCancelled, "HTTP request: cancelled")); }

  std::future<Result<HttpResponse>> future() { return promise_.get_future(); }
  void SetExchange(std::shared_ptr<HttpExchange> exchange) { exchange_ = std::move(exchange); }

  void OnHead(int status, HttpHeaders headers) override {
    response_.status = status;
    response_.headers = std::move(headers);
  }
  void OnBody(std::string_view bytes) override {
    if (bytes.size() > body_bytes_max_ - response_.body.size()) {
      Give(Fail(Code::kPayloadTooLarge, "HTTP response: a body of more than " +
                                            std::to_string(body_bytes_max_) + " bytes"));
      exchange_->Cancel();
      return;
    }
    response_.body += bytes;
  }
  void OnDone(Status status) override {
    if (status) {
      Give(std::move(response_));
    } else {
      Give(Fail(std::move(status).error()));
    }
  }

 private:
  void Give(Result<HttpResponse> result) {
    if (!std::exchange(given_, true)) {
      promise_.set_value(std::move(result));
    }
  }

  const size_t body_bytes_max_;
  std::promise<Result<HttpResponse>> promise_;
  bool given_ = false;
  std::shared_ptr<HttpExchange> exchange_;
  HttpResponse response_;
};

}  // namespace

Result<HttpResponse> FetchAndWait(EventLoop& loop, HttpClient& client, HttpClientRequest request,
                                  size_t body_bytes_max) {
  CHECK(!loop.InLoop()) << "a loop can't wait for itself";
  auto sink = std::make_unique<WaitingSink>(body_bytes_max);
  std::future<Result<HttpResponse>> future = sink->future();
  loop.Post([&client, request = std::move(request), sink = std::move(sink)]() mutable {
    WaitingSink& waiting = *sink;
    waiting.SetExchange(client.Send(std::move(request), std::move(sink)));
  });
  return future.get();
}

}  // namespace fak::net

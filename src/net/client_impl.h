#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "net/asio.h"
#include "net/client_connection.h"
#include "net/http_client.h"

namespace fak::net {

// The pool: which exchange gets which connection. Loop thread only.
class HttpClient::Impl : public std::enable_shared_from_this<HttpClient::Impl> {
 public:
  Impl(EventLoop& loop, HttpClientOptions options, std::unique_ptr<asio::ssl::context> tls);

  std::shared_ptr<UpstreamExchange> Send(HttpClientRequest request,
                                         std::unique_ptr<HttpResponseSink> sink);
  // Gives the exchange a kept connection (unless `fresh`) or a new one, now or later, or fails it.
  void Acquire(const std::shared_ptr<UpstreamExchange>& exchange, const Origin& origin, bool fresh);
  // Takes a connection back. Closed unless `reusable`.
  void Release(std::shared_ptr<ClientConnection> connection, bool reusable);
  // The exchange has ended; it may still have been waiting.
  void Forget(UpstreamExchange* exchange, const Origin& origin);
  void Stop();
  HttpClientStats Stats() const;

  EventLoop& loop;
  const HttpClientOptions options;
  HttpClientStats totals;  // the counters of it

 private:
  struct Pool {
    std::vector<std::shared_ptr<ClientConnection>> idle;  // used last at the end
    std::deque<std::shared_ptr<UpstreamExchange>> waiting;
    size_t open = 0;  // idle ones, and ones being connected, included
  };

  [[nodiscard]] Result<asio::ssl::context*> Tls();
  void ConnectNew(const std::shared_ptr<UpstreamExchange>& exchange, const Origin& origin);
  std::shared_ptr<ClientConnection> TakeIdle(Pool& pool);
  // Serves who waits, and forgets a pool that nobody needs.
  void ServeWaiting(const Origin& origin);
  void Sweep();

  std::unique_ptr<asio::ssl::context> tls_;  // made when it is needed first
  std::map<Origin, Pool> pools_;
  std::unordered_map<UpstreamExchange*, std::shared_ptr<UpstreamExchange>> exchanges_;
  bool stopped_ = false;
  Timer sweep_;
};

}  // namespace fak::net

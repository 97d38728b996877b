#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "net/asio.h"
#include "net/http_server.h"

namespace fak::net {

// What the connections of one server share. Loop thread only, but for the counters.
class HttpServer::Impl : public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  Impl(EventLoop& loop, HttpServerOptions options, HttpHandler& handler,
       std::unique_ptr<asio::ssl::context> tls);

  // Any thread, before anything else.
  [[nodiscard]] Status Listen();

  void Accept();
  void Stop();
  void Drain(int64_t timeout_ms, UniqueFunction<void()> on_drained);
  void Remove(ServerConnection* connection);

  // The value of a Date header, made once a second.
  std::string_view DateNow();

  EventLoop& loop;
  const HttpServerOptions options;
  HttpHandler& handler;
  const std::unique_ptr<asio::ssl::context> tls;  // null: plain
  uint16_t port = 0;
  bool draining = false;
  bool stopped = false;

  std::atomic<size_t> connections_open{0};
  std::atomic<size_t> requests_open{0};
  std::atomic<uint64_t> accepted_total{0};
  std::atomic<uint64_t> refused_total{0};
  std::atomic<uint64_t> faults_total{0};

 private:
  void OnAccepted(Socket socket);
  void CloseAll(const Error& why);
  void MaybeDrained();

  Acceptor acceptor_;
  std::unordered_map<ServerConnection*, std::shared_ptr<ServerConnection>> connections_;
  bool told_of_descriptors_ = false;
  Timer accept_again_;
  Timer drain_deadline_;
  UniqueFunction<void()> on_drained_;
  std::string date_;
  int64_t date_second_ = -1;
};

}  // namespace fak::net

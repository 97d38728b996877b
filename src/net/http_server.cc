#include "net/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "net/event_loop_impl.h"
#include "net/server_connection.h"
#include "net/server_impl.h"
#include "net/stream.h"
#include "net/tls_context.h"

namespace fak::net {
namespace {

constexpr int kAcceptAgainMs = 50;
constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
// Bytes that the kernel takes beyond what is on its way to the client. Without this it takes some
// megabytes a connection, which a slow reader would cost us, and which would be stale by then.
constexpr int kUnsentBytesMax = 128 * 1024;

// Fails when the connection is gone already.
bool SetOptions(Socket& socket) {
  error_code error;
  socket.set_option(tcp::no_delay(true), error);
  return !error && setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT,
                              &kUnsentBytesMax, sizeof kUnsentBytesMax) == 0;
}

std::string HttpDate(int64_t unix_seconds) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[static_cast<size_t>(parts.tm_wday)], parts.tm_mday,
                kMonths[static_cast<size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour,
                parts.tm_min, parts.tm_sec);
  return text.data();
}

Status OpenAcceptor(Acceptor& acceptor, const tcp::endpoint& endpoint, bool share_port) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(Acceptor::reuse_address(true), error);
  }
  const int on = 1;
  if (!error && share_port &&
      setsockopt(acceptor.native_handle(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
    error = error_code(errno, boost::system::system_category());
  }
  if (!error) {
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(kBacklog, error);
  }
  if (error) {
    Error failure = ErrnoError(error.value(), "");
    failure.detail = error.message();
    if (error == asio::error::address_in_use) {
      failure.code = Code::kAlreadyExists;
    }
    return Fail(std::move(failure));
  }
  return {};
}

}  // namespace

HttpServer::Impl::Impl(EventLoop& event_loop, HttpServerOptions server_options,
                       HttpHandler& http_handler, std::unique_ptr<asio::ssl::context> tls_context)
    : loop(event_loop),
      options(std::move(server_options)),
      handler(http_handler),
      tls(std::move(tls_context)),
      acceptor_(loop.impl().context),
      accept_again_(loop.timers(), [this] { Accept(); }),
      drain_deadline_(loop.timers(),
                      [this] { CloseAll({Code::kUnavailable, "the server is shutting down"}); }) {}

Status HttpServer::Impl::Listen() {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error) {
    return Fail(Code::kInvalidArgument, "\"" + options.address + "\" is no IP address");
  }
  const tcp::endpoint wanted(address, options.port);
  if (Status opened = OpenAcceptor(acceptor_, wanted, options.share_port); !opened) {
    return Fail(
        Within(options.address + ":" + std::to_string(options.port), std::move(opened).error()));
  }
  port = acceptor_.local_endpoint(error).port();
  return {};
}

void HttpServer::Impl::Accept() {
  if (stopped || draining) {
    return;
  }
  acceptor_.async_accept([self = shared_from_this()](const error_code& error, Socket socket) {
    if (self->stopped || self->draining) {
      return;
    }
    if (!error) {
      self->OnAccepted(std::move(socket));
      self->Accept();
    } else if (error == asio::error::connection_aborted) {
      self->Accept();
    } else {
      // Out of descriptors or memory: trying at once again would spin.
      self->accept_again_.ArmMs(kAcceptAgainMs);
    }
  });
}

void HttpServer::Impl::OnAccepted(Socket socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  const bool no_descriptor = socket.native_handle() >= options.limits.descriptors_max;
  if (no_descriptor && !std::exchange(told_of_descriptors_, true)) {
    Log(LogLevel::kWarning,
        "{} descriptors are open, and the rest is kept for others than clients: new connections "
        "are closed as they come (ulimit -n)",
        options.limits.descriptors_max);
  }
  if (no_descriptor || connections_.size() >= options.limits.connections_max) {
    refused_total.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (error || !SetOptions(socket)) {
    return;
  }
  accepted_total.fetch_add(1, std::memory_order_relaxed);
  connections_open.fetch_add(1, std::memory_order_relaxed);
  Stream stream = tls ? Stream(std::move(socket), *tls) : Stream(std::move(socket));
  stream.OnConnected();
  const auto connection =
      std::make_shared<ServerConnection>(shared_from_this(), std::move(stream), peer);
  connections_.emplace(connection.get(), connection);
  connection->Start();
}

void HttpServer::Impl::Remove(ServerConnection* connection) {
  if (connections_.erase(connection) > 0) {
    connections_open.fetch_sub(1, std::memory_order_relaxed);
  }
  MaybeDrained();
}

void HttpServer::Impl::CloseAll(const Error& why) {
  std::vector<std::shared_ptr<ServerConnection>> open;
  for (const auto& [key, connection] : connections_) {
    open.push_back(connection);
  }
  for (const auto& connection : open) {
    connection->CloseNow(why);
  }
}

void HttpServer::Impl::Stop() {
  stopped = true;
  error_code ignored;
  acceptor_.close(ignored);
  accept_again_.Disarm();
  drain_deadline_.Disarm();
  CloseAll({Code::kUnavailable, "the server was stopped"});
}

void HttpServer::Impl::Drain(int64_t timeout_ms, UniqueFunction<void()> on_drained) {
  draining = true;
  on_drained_ = std::move(on_drained);
  error_code ignored;
  acceptor_.close(ignored);
  drain_deadline_.ArmMs(timeout_ms);
  std::vector<std::shared_ptr<ServerConnection>> open;
  for (const auto& [key, connection] : connections_) {
    open.push_back(connection);
  }
  for (const auto& connection : open) {
    connection->Drain();
  }
  MaybeDrained();
}

void HttpServer::Impl::MaybeDrained() {
  if (draining && connections_.empty() && on_drained_) {
    drain_deadline_.Disarm();
    loop.Post(std::move(on_drained_));
    on_drained_ = nullptr;
  }
}

std::string_view HttpServer::Impl::DateNow() {
  const int64_t second = Clock::Real().WallNs() / kNsPerSecond;
  if (second != date_second_) {
    date_second_ = second;
    date_ = HttpDate(second);
  }
  return date_;
}

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(EventLoop& loop, HttpServerOptions options,
                                                      HttpHandler& handler) {
  std::unique_ptr<asio::ssl::context> tls;
  if (options.tls) {
    TRY_ASSIGN(tls, MakeServerContext(*options.tls));
  }
  auto impl = std::make_shared<Impl>(loop, std::move(options), handler, std::move(tls));
  TRY(impl->Listen());
  loop.Invoke([&impl] { impl->Accept(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));  // tidy: allow new: private
}

HttpServer::~HttpServer() {
  impl_->loop.Invoke([this] { impl_->Stop(); });
}

uint16_t HttpServer::port() const {
  return impl_->port;
}

bool HttpServer::tls() const {
  return impl_->tls != nullptr;
}

void HttpServer::Drain(int64_t timeout_ms, UniqueFunction<void()> on_drained) {
  impl_->loop.Post([impl = impl_, timeout_ms, on_drained = std::move(on_drained)]() mutable {
    if (!impl->stopped && !impl->draining) {
      impl->Drain(timeout_ms, std::move(on_drained));
    }
  });
}

HttpServerStats HttpServer::stats() const {
  return {impl_->connections_open.load(), impl_->requests_open.load(), impl_->accepted_total.load(),
          impl_->refused_total.load(), impl_->faults_total.load()};
}

}  // namespace fak::net

#include "net/client_connection.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/limits.h"
#include "net/http_client.h"
#include "net/http_head.h"
#include "net/tls_context.h"

namespace fak::net {
namespace {

constexpr size_t kTunnelReadBytes = 4096;

// That this process or its system has no descriptor or memory left for a socket, which nobody else
// is to blame for.
bool IsLackOfOurs(const error_code& error) {
  return error == asio::error::no_descriptors ||
         error == boost::system::errc::too_many_files_open_in_system ||
         error == asio::error::no_buffer_space || error == asio::error::no_memory;
}

// The steps of Connect(), each continuing with the next.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  Connector(std::shared_ptr<ClientConnection> connection, const Proxy* maybe_proxy,
            asio::ssl::context* tls, const TlsClientOptions& tls_options,
            UniqueFunction<void(Status)> done)
      : connection_(std::move(connection)),
        maybe_proxy_(maybe_proxy),
        tls_(tls),
        tls_options_(tls_options),
        done_(std::move(done)) {}

  void Start() {
    const Origin& origin = maybe_proxy_ == nullptr ? connection_->origin : maybe_proxy_->origin;
    error_code not_numeric;
    const asio::ip::address address = asio::ip::make_address(origin.host, not_numeric);
    if (!not_numeric) {
      ConnectTo(tcp::resolver::results_type::create(tcp::endpoint(address, origin.port),
                                                    origin.host, ""));
      return;
    }
    // getaddrinfo on the resolver's own thread. There is one for a loop, so a slow name server
    // delays other names, but no connection that is open.
    connection_->resolver.async_resolve(
        origin.host, std::to_string(origin.port), tcp::resolver::numeric_service,
        [self = shared_from_this()](const error_code& error,
                                    const tcp::resolver::results_type& found) {
          if (error) {
            const error_code lack = self->LackNow();
            self->Unreached("can't look up the host", lack ? lack : error);
          } else {
            self->ConnectTo(found);
          }
        });
  }

 private:
  void ConnectTo(tcp::resolver::results_type found) {
    found_ = std::move(found);
    next_ = found_.begin();
    ConnectToNext(asio::error::not_found);
  }

  // One address after the other; asio::async_connect would do so too, but tells no error of a
  // socket that couldn't be made. `why_not`: of the address before.
  void ConnectToNext(const error_code& why_not) {
    if (connection_->closed || next_ == found_.end()) {
      Unreached("can't connect",
                connection_->closed ? error_code(asio::error::operation_aborted) : why_not);
      return;
    }
    const tcp::endpoint to = (next_++)->endpoint();
    Socket& socket = connection_->stream.socket();
    error_code error;
    socket.close(error);
    socket.open(to.protocol(), error);
    if (error) {
      asio::post(socket.get_executor(),
                 [self = shared_from_this(), error] { self->OnConnected(error); });
      return;
    }
    socket.async_connect(
        to, [self = shared_from_this()](const error_code& failed) { self->OnConnected(failed); });
  }

  void OnConnected(error_code error) {
    if (!error && !connection_->closed) {
      connection_->stream.OnConnected();
      connection_->stream.socket().set_option(tcp::no_delay(true), error);
    }
    if (connection_->closed || IsLackOfOurs(error)) {
      Unreached("can't connect", connection_->closed ? asio::error::operation_aborted : error);
    } else if (error) {
      ConnectToNext(error);
    } else if (maybe_proxy_ != nullptr && connection_->origin.tls) {
      AskForTunnel();
    } else {
      ShakeHands();
    }
  }

  void AskForTunnel() {
    const Origin& origin = connection_->origin;
    const std::string host =
        origin.host.find(':') == std::string::npos ? origin.host : "[" + origin.host + "]";
    const std::string to = host + ":" + std::to_string(origin.port);
    tunnel_ = "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n";
    if (!maybe_proxy_->authorization.empty()) {
      tunnel_ += "Proxy-Authorization: " + maybe_proxy_->authorization + "\r\n";
    }
    tunnel_ += "\r\n";
    asio::async_write(connection_->stream.socket(), asio::buffer(tunnel_),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (error) {
                          self->Failed("can't ask for a tunnel", error);
                        } else {
                          self->ReadTunnelHead();
                        }
                      });
  }

  void ReadTunnelHead() {
    const std::span<char> room = connection_->in.Prepare(kTunnelReadBytes);
    connection_->stream.AsyncRead(
        asio::buffer(room.data(), room.size()),
        [self = shared_from_this()](const error_code& error, size_t bytes) {
          self->connection_->in.Commit(bytes);
          if (error) {
            self->Failed("no answer to a CONNECT", error);
          } else {
            self->TakeTunnelHead();
          }
        });
  }

  // In TLS the client speaks first, so nothing may follow the head.
  void TakeTunnelHead() {
    InputBuffer& in = connection_->in;
    const Result<size_t> size = finder_.Find(in.view());
    if (size && *size == 0 && in.size() <= limits::kHttpHeadBytesMax) {
      ReadTunnelHead();
      return;
    }
    const Result<ResponseHead> head =
        size && *size > 0 ? ParseResponseHead(in.view().substr(0, *size), /*to_head=*/true)
                          : Result<ResponseHead>(Fail(Code::kUpstreamError, "no HTTP head"));
    if (!head) {
      Refused(head.error().detail);
    } else if (head->status / 100 != 2) {
      Refused("it answered " + std::to_string(head->status) + " to a CONNECT");
    } else if (in.size() > *size) {
      Refused("it sent more than the head of its answer");
    } else {
      in.Consume(*size);
      ShakeHands();
    }
  }

  void Refused(const std::string& why) {
    done_(Fail(Code::kUnavailable, connection_->origin.ToString() + ": the proxy " +
                                       maybe_proxy_->origin.ToString() +
                                       " makes no tunnel: " + why));
  }

  void ShakeHands() {
    if (!connection_->origin.tls) {
      done_({});
      return;
    }
    connection_->stream.StartTls(*tls_);
    Stream::Tls& stream = connection_->stream.tls_stream();
    if (Status set = SetTlsPeer(stream, connection_->origin.host, tls_options_); !set) {
      done_(std::move(set));
      return;
    }
    stream.async_handshake(asio::ssl::stream_base::client,
                           [self = shared_from_this()](const error_code& error) {
                             if (IsPlainHttp(error)) {
                               self->SpeaksPlainHttp();
                             } else if (error) {
                               self->Failed("TLS", error);
                             } else {
                               self->done_({});
                             }
                           });
  }

  void SpeaksPlainHttp() {
    done_(Fail(Code::kUnavailable,
               connection_->origin.ToString() + ": it speaks plain HTTP: use http://"));
  }

  // Of a descriptor, right now: a look-up that had none for its own socket says "not found".
  error_code LackNow() {
    error_code error;
    Socket(connection_->stream.socket().get_executor()).open(tcp::v4(), error);
    return IsLackOfOurs(error) ? error : error_code();
  }

  void Failed(std::string_view what, const error_code& error, std::string_view field = {}) {
    const std::string through =
        maybe_proxy_ == nullptr ? "" : " through the proxy " + maybe_proxy_->origin.ToString();
    done_(Fail(IsLackOfOurs(error) ? Code::kResourceExhausted : Code::kUnavailable,
               connection_->origin.ToString() + through + ": " + std::string(what) + ": " +
                   ErrorText(error),
               std::string(field)));
  }
  // Before anybody was there to speak with.
  void Unreached(std::string_view what, const error_code& error) {
    Failed(what, error, kUnreachedField);
  }

  const std::shared_ptr<ClientConnection> connection_;
  const Proxy* const maybe_proxy_;
  asio::ssl::context* const tls_;
  const TlsClientOptions& tls_options_;
  UniqueFunction<void(Status)> done_;
  tcp::resolver::results_type found_;
  tcp::resolver::results_type::const_iterator next_;
  std::string tunnel_;  // the CONNECT
  HeadFinder finder_;
};

}  // namespace

bool ClientConnection::IsStale() {
  if (in.size() > 0) {
    return true;
  }
  char byte = 0;
  const ssize_t got = recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return !(got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

void Connect(const std::shared_ptr<ClientConnection>& connection, const Proxy* maybe_proxy,
             asio::ssl::context* tls, const TlsClientOptions& tls_options,
             UniqueFunction<void(Status)> done) {
  std::make_shared<Connector>(connection, maybe_proxy, tls, tls_options, std::move(done))->Start();
}

}  // namespace fak::net

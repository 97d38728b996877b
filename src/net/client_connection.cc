#include "net/client_connection.h"

#include <sys/socket.h>

#include <cerrno>

#include "net/tls_context.h"

namespace fak::net {
namespace {

// The steps of Connect(), each continuing with the next.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  Connector(std::shared_ptr<ClientConnection> connection, asio::ssl::context* tls,
            const TlsClientOptions& tls_options, UniqueFunction<void(Status)> done)
      : connection_(std::move(connection)),
        tls_(tls),
        tls_options_(tls_options),
        done_(std::move(done)) {}

  void Start() {
    const Origin& origin = connection_->origin;
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
        [self = shared_from_this()](const error_code& error, tcp::resolver::results_type found) {
          if (error) {
            self->Failed("can't look up the host", error);
          } else {
            self->ConnectTo(found);
          }
        });
  }

 private:
  void ConnectTo(const tcp::resolver::results_type& found) {
    if (connection_->closed) {
      Failed("can't connect", asio::error::operation_aborted);
      return;
    }
    asio::async_connect(connection_->stream.socket(), found,
                        [self = shared_from_this()](error_code error, const tcp::endpoint&) {
                          if (!error) {
                            self->connection_->stream.socket().set_option(tcp::no_delay(true),
                                                                          error);
                          }
                          if (error) {
                            self->Failed("can't connect", error);
                          } else {
                            self->ShakeHands();
                          }
                        });
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
                             if (error) {
                               self->Failed("TLS", error);
                             } else {
                               self->done_({});
                             }
                           });
  }

  void Failed(std::string_view what, const error_code& error) {
    done_(Fail(Code::kUnavailable, connection_->origin.ToString() + ": " + std::string(what) +
                                       ": " + ErrorText(error)));
  }

  const std::shared_ptr<ClientConnection> connection_;
  asio::ssl::context* const tls_;
  const TlsClientOptions& tls_options_;
  UniqueFunction<void(Status)> done_;
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

void Connect(const std::shared_ptr<ClientConnection>& connection, asio::ssl::context* tls,
             const TlsClientOptions& tls_options, UniqueFunction<void(Status)> done) {
  std::make_shared<Connector>(connection, tls, tls_options, std::move(done))->Start();
}

}  // namespace fak::net

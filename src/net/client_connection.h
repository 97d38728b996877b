#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_function.h"
#include "net/asio.h"
#include "net/input_buffer.h"
#include "net/proxy.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/url.h"

namespace fak::net {

// One connection to an upstream, used by one exchange at a time. Loop thread only; alive while an
// operation or its user holds it.
struct ClientConnection {
  ClientConnection(asio::io_context& context, Origin to)
      : origin(std::move(to)), resolver(context), stream(Socket(context)) {}

  // Whether the upstream has closed it, or said something that nobody asked for, since it was used
  // last. A system call.
  bool IsStale();
  void Close(bool reset) {
    closed = true;
    resolver.cancel();
    stream.Close(reset);
  }

  const Origin origin;
  tcp::resolver resolver;
  Stream stream;
  InputBuffer in;
  bool closed = false;
  bool used_before = false;
  int64_t idle_since_ns = 0;
};

// Looks the name up, connects, has the proxy make a tunnel where there is one and the origin wants
// TLS, shakes hands. `done` is called once, never from inside this call. `tls` is the client's
// context for an origin that wants it; it, the proxy and the options outlive the attempt. Closing
// the connection ends it early, with an error.
void Connect(const std::shared_ptr<ClientConnection>& connection, const Proxy* maybe_proxy,
             asio::ssl::context* tls, const TlsClientOptions& tls_options,
             UniqueFunction<void(Status)> done);

}  // namespace fak::net

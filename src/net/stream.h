// Hot path: bench/micro/http_bench.cc.
#pragma once

#include <sys/socket.h>

#include <string_view>
#include <utility>
#include <variant>

#include "base/hot_lines.h"
#include "net/asio.h"
#include "net/plain_read.h"

namespace fak::net {

// A TCP connection, with or without TLS: one set of operations for both. One read and one write
// may be open at a time. Loop thread only.
class Stream {
 public:
  using Tls = asio::ssl::stream<Socket>;

  explicit Stream(Socket socket) : stream_(std::move(socket)) {}
  // `context` must outlive the stream.
  Stream(Socket socket, asio::ssl::context& context)
      : stream_(std::in_place_type<Tls>, std::move(socket), context) {}

  // Turns a connected plain stream into one with TLS; the handshake is still to be made.
  void StartTls(asio::ssl::context& context) {
    Socket plain = std::move(std::get<Socket>(stream_));
    stream_.emplace<Tls>(std::move(plain), context);
  }

  // Back to plain, when a handshake showed that the client never began one.
  void StopTls() {
    Socket plain = std::move(std::get<Tls>(stream_).next_layer());
    stream_.emplace<Socket>(std::move(plain));
  }

  bool tls() const { return std::holds_alternative<Tls>(stream_); }
  Tls& tls_stream() { return std::get<Tls>(stream_); }
  Socket& socket() {
    return tls() ? std::get<Tls>(stream_).next_layer() : std::get<Socket>(stream_);
  }

  // Once connected: lets plain reads do with one system call (plain_read.h).
  void OnConnected() {
#ifdef FAK_NET_READS_KNOW_REST
    knows_rest_ = AskForRest(socket());
#endif
  }

  // maybe_hot: what the handler will touch, and keeps; fetched while the kernel copies.
  template <class Handler>
  void AsyncRead(asio::mutable_buffer buffer, Handler&& handler,
                 [[maybe_unused]] const HotLines* maybe_hot = nullptr) {
#ifdef FAK_NET_READS_KNOW_REST
    if (knows_rest_ && !tls()) {
      Socket& plain = std::get<Socket>(stream_);
      plain.async_read_some(PlainReadBuffer(buffer, plain, maybe_hot),
                            std::forward<Handler>(handler));
      return;
    }
#endif
    std::visit([&](auto& s) { s.async_read_some(buffer, std::forward<Handler>(handler)); },
               stream_);
  }
  template <class Handler>
  void AsyncWrite(asio::const_buffer buffer, Handler&& handler) {
    std::visit([&](auto& s) { s.async_write_some(buffer, std::forward<Handler>(handler)); },
               stream_);
  }

  // Writes what the kernel takes at once, and says how much that is: 0 with TLS, and where there is
  // anything to be waited for or to be told. While no write is open.
  size_t TryWrite(std::string_view bytes) {
    if (tls()) {
      return 0;
    }
    const ssize_t sent =
        send(socket().native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }

  // Both sides see an orderly end or, with `reset`, an error. Open operations end with
  // operation_aborted.
  void Close(bool reset = false) {
    error_code ignored;
    if (reset) {
      socket().set_option(asio::socket_base::linger(true, 0), ignored);
    }
    socket().close(ignored);
  }

 private:
  std::variant<Socket, Tls> stream_;
#ifdef FAK_NET_READS_KNOW_REST
  bool knows_rest_ = false;
#endif
};

}  // namespace fak::net

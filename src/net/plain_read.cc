#include "net/plain_read.h"

#ifdef FAK_NET_READS_KNOW_REST

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/file.h"

namespace fak::net {
namespace {

// What Asio keeps for itself of a socket and of an operation.
struct SocketParts : Socket {
  static auto* StateOf(Socket& socket) {
    return (socket.*(&SocketParts::impl_)).get_implementation().reactor_data_;
  }
};
struct OperationParts : asio::detail::scheduler_operation {
  static unsigned EventsOf(const asio::detail::scheduler_operation& operation) {
    return operation.*(&OperationParts::task_result_);
  }
};

struct Got {
  ssize_t bytes = 0;        // as recv(2) says; errno
  std::optional<int> rest;  // left to be read, an end counted as 1
};

// Without waiting.
Got Receive(int fd, void* to, size_t size) {
  iovec part{to, size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  Got got;
  do {
    got.bytes = recvmsg(fd, &message, MSG_DONTWAIT);
  } while (got.bytes < 0 && errno == EINTR);
  const cmsghdr* told = got.bytes > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (told != nullptr && told->cmsg_level == IPPROTO_TCP && told->cmsg_type == TCP_CM_INQ) {
    std::memcpy(&got.rest.emplace(), CMSG_DATA(told), sizeof(int));
  }
  return got;
}

bool TurnOn(int fd) {
  const int on = 1;
  return setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof on) == 0;
}

// Linux counts an end since 5.1, and others who speak its language may never have: a byte and an
// end, sent to ourselves, show it.
bool EndIsCounted() {
  const FileHandle listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileHandle sender(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  socklen_t size = sizeof here;
  if (bind(listener.fd(), address, size) != 0 || listen(listener.fd(), 1) != 0 ||
      getsockname(listener.fd(), address, &size) != 0 || connect(sender.fd(), address, size) != 0) {
    return false;
  }
  const FileHandle taker(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  char byte = 0;
  if (!TurnOn(taker.fd()) || send(sender.fd(), &byte, 1, MSG_NOSIGNAL) != 1 ||
      shutdown(sender.fd(), SHUT_WR) != 0) {
    return false;
  }
  const Got got = Receive(taker.fd(), &byte, 1);
  return got.bytes == 1 && got.rest && *got.rest > 0;
}

}  // namespace

PlainReadBuffer::PlainReadBuffer(asio::mutable_buffer to, Socket& socket, const HotLines* maybe_hot)
    : asio::mutable_buffer(to), state_(SocketParts::StateOf(socket)), maybe_hot_(maybe_hot) {}

bool PlainReadBuffer::SawBreak() const {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
  // The one cast that may go to a base that is private.
  const auto* operation = (const asio::detail::scheduler_operation*)state_;  // NOLINT
#pragma GCC diagnostic pop
  return (OperationParts::EventsOf(*operation) & (EPOLLERR | EPOLLHUP)) != 0;
}

void PlainReadBuffer::Prefetch() const {
  if (maybe_hot_ != nullptr) {
    maybe_hot_->Prefetch();
  }
}

bool AskForRest(Socket& socket) {
  static const bool kCounted = EndIsCounted();
  return kCounted && TurnOn(socket.native_handle());
}

}  // namespace fak::net

namespace boost::asio::detail {

template <>
reactor_op::status reactive_socket_recv_op_base<fak::net::PlainReadBuffer>::do_perform(
    reactor_op* base) {
  auto* const op = static_cast<reactive_socket_recv_op_base*>(base);
  op->buffers_.Prefetch();
  const fak::net::Got got =
      fak::net::Receive(op->socket_, op->buffers_.data(), op->buffers_.size());
  if (got.bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return not_done;
  }
  if (got.bytes <= 0) {
    op->ec_ = got.bytes == 0 ? boost::system::error_code(error::eof)
                             : boost::system::error_code(errno, error::get_system_category());
    op->bytes_transferred_ = 0;
    return done_and_exhausted;
  }
  op->ec_ = {};
  op->bytes_transferred_ = static_cast<std::size_t>(got.bytes);
  const bool emptied = got.rest && *got.rest == 0 && !op->buffers_.SawBreak();
  return emptied ? done_and_exhausted : done;
}

}  // namespace boost::asio::detail

#endif

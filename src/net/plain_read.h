// Hot path: bench/e2e.
#pragma once

#include "base/hot_lines.h"
#include "net/asio.h"

// A read of a plain socket that knows when it has emptied it, so that the next one waits at once.
//
// Asio tries each read before it waits, and again after each that gave something, mostly to find
// nothing: half of a proxy's reads. It skips that try after an operation that says
// `done_and_exhausted`, which its own reads say at an end only. Ours asks Linux with each read how
// much is left (TCP_INQ, a control message of recvmsg(2)), which counts an end of the stream too;
// and looks whether the event that woke it told of a broken connection, which that count doesn't
// show. Nothing else of a socket's life comes without another event, as epoll is edge-triggered.
//
// This reaches into Asio's reactor, so it is for the version that it was written for. With any
// other, on other systems, with a kernel that doesn't count the end, or compiled with
// FAK_NET_PLAIN_READS, reads are Asio's own. Decision 0012.
#if defined(__linux__) && defined(BOOST_ASIO_HAS_EPOLL) &&                          \
    !defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT) && BOOST_ASIO_VERSION == 102600 && \
    !defined(FAK_NET_PLAIN_READS)
#define FAK_NET_READS_KNOW_REST 1

#include <boost/asio/detail/reactive_socket_recv_op.hpp>

namespace fak::net {

// Where to read to. A type of its own, so that it has an operation of its own.
class PlainReadBuffer : public asio::mutable_buffer {
 public:
  // From a socket for which AskForRest() was called. `socket` may be moved, and closed, meanwhile.
  // `maybe_hot` lives as long as the operation.
  PlainReadBuffer(asio::mutable_buffer to, Socket& socket, const HotLines* maybe_hot);
  // Whether the event that came last for that socket told that the connection is broken.
  bool SawBreak() const;
  void Prefetch() const;

 private:
  const asio::detail::epoll_reactor::descriptor_state* state_;
  const HotLines* maybe_hot_;
};

// Has the kernel tell what is left. False where it doesn't do that, or not for an end too: the
// socket is Asio's to read then.
bool AskForRest(Socket& socket);

}  // namespace fak::net

namespace boost::asio::detail {

template <>
reactor_op::status reactive_socket_recv_op_base<fak::net::PlainReadBuffer>::do_perform(
    reactor_op* base);

}  // namespace boost::asio::detail

#endif

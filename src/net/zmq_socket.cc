#include "net/zmq_socket.h"

#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/limits.h"
#include "net/zmq_loop_impl.h"

namespace fak::net {
namespace {

// Messages of one socket before others get their turn.
constexpr int kMessagesATurn = 64;

tl::unexpected<Error> ZmqFailed(std::string_view what) {
  return Fail(Code::kIoError, std::string(what) + ": " + zmq_strerror(zmq_errno()));
}

int TypeOf(ZmqPattern pattern) {
  switch (pattern) {
    case ZmqPattern::kPublish: return ZMQ_PUB;
    case ZmqPattern::kSubscribe: return ZMQ_SUB;
    case ZmqPattern::kRouter: return ZMQ_ROUTER;
    case ZmqPattern::kDealer: return ZMQ_DEALER;
  }
  return ZMQ_PAIR;
}

// A whole message, or false when none is there. Frames over the bound are taken and dropped.
bool Receive(void* socket, std::vector<std::string>& frames) {
  frames.clear();
  while (true) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&part);
      return false;
    }
    if (frames.size() <= limits::kZmqFramesMax) {
      frames.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
    }
    const bool more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
    if (!more) {
      return true;
    }
  }
}

}  // namespace

Result<std::unique_ptr<ZmqSocket>> ZmqSocket::Open(ZmqLoop& loop, const ZmqSocketOptions& options,
                                                   ZmqCallbacks callbacks) {
  DCHECK(loop.InLoop());
  const std::string address = options.endpoint.ToString();
  const bool publishes =
      options.pattern == ZmqPattern::kPublish || options.pattern == ZmqPattern::kRouter;
  if ((options.bind || publishes) && !options.endpoint.local() && !options.allow_public) {
    return Fail(Code::kPermissionDenied,
                address +
                    " can be reached by others than this machine, and what is sent is in "
                    "clear: it must be allowed explicitly",
                "endpoint");
  }
  std::unique_ptr<ZmqSocket> socket(new ZmqSocket(loop));
  socket->callbacks_ = std::move(callbacks);
  socket->socket_ = zmq_socket(loop.impl().context, TypeOf(options.pattern));
  if (socket->socket_ == nullptr) {
    return ZmqFailed("socket");
  }
  TRY(socket->Configure(options));
  if (socket->callbacks_.on_connected || socket->callbacks_.on_disconnected) {
    TRY(socket->Watch());
  }
  const int opened = options.bind ? zmq_bind(socket->socket_, address.c_str())
                                  : zmq_connect(socket->socket_, address.c_str());
  if (opened != 0) {
    return ZmqFailed((options.bind ? "bind " : "connect ") + address);
  }
  if (socket->callbacks_.on_message) {
    socket->messages_ = socket->Wait(socket->socket_, &TakeMessages);
  }
  return socket;
}

Status ZmqSocket::Configure(const ZmqSocketOptions& options) {
  // With it libzmq maps IPv4 addresses into IPv6, which a machine without IPv6 can't bind.
  const std::string& host = options.endpoint.host;
  const int ipv6 =
      host.find_first_not_of("0123456789.*") != std::string::npos && host != "localhost";
  const int no_linger = 0;
  const auto frame_max = static_cast<int64_t>(limits::kZmqFrameBytesMax);
  const auto set = [this](int option, const void* value, size_t size) {
    return zmq_setsockopt(socket_, option, value, size) == 0;
  };
  bool fine = set(ZMQ_LINGER, &no_linger, sizeof no_linger) && set(ZMQ_IPV6, &ipv6, sizeof ipv6) &&
              set(ZMQ_SNDHWM, &options.queue_max, sizeof options.queue_max) &&
              set(ZMQ_RCVHWM, &options.queue_max, sizeof options.queue_max) &&
              set(ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max);
  if (options.pattern == ZmqPattern::kSubscribe) {
    fine = fine && set(ZMQ_SUBSCRIBE, options.topic.data(), options.topic.size());
  }
  return fine ? Status() : ZmqFailed("socket option");
}

// libzmq tells of connections over a pair of its own.
Status ZmqSocket::Watch() {
  const std::string name =
      "inproc://fak-events-" + std::to_string(reinterpret_cast<uintptr_t>(this));
  if (zmq_socket_monitor(socket_, name.c_str(),
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0) {
    return ZmqFailed("monitor");
  }
  void* const pair = zmq_socket(loop_.impl().context, ZMQ_PAIR);
  if (pair == nullptr) {
    return ZmqFailed("monitor");
  }
  events_ = Wait(pair, &TakeEvents);
  const int no_linger = 0;
  zmq_setsockopt(pair, ZMQ_LINGER, &no_linger, sizeof no_linger);
  return zmq_connect(pair, name.c_str()) == 0 ? Status() : ZmqFailed("monitor");
}

std::shared_ptr<ZmqWaiter> ZmqSocket::Wait(void* socket, void (*on_readable)(ZmqWaiter&)) {
  auto waiter = std::make_shared<ZmqWaiter>(ZmqWaiter{socket, on_readable, this});
  loop_.impl().waiters.push_back(waiter);
  return waiter;
}

void ZmqSocket::Close(std::shared_ptr<ZmqWaiter>& waiter) {
  if (waiter != nullptr) {
    waiter->socket = nullptr;
    std::erase(loop_.impl().waiters, waiter);
    waiter.reset();
  }
}

ZmqSocket::~ZmqSocket() {
  DCHECK(loop_.InLoop());
  Close(messages_);
  if (events_ != nullptr) {
    void* const pair = events_->socket;
    Close(events_);
    zmq_socket_monitor(socket_, nullptr, 0);
    zmq_close(pair);
  }
  if (socket_ != nullptr) {
    zmq_close(socket_);
  }
}

// `waiter` is kept alive by the loop; its socket is null once a callback has destroyed the owner,
// which must not take the callback with it while it runs.
template <class Callback, class... Args>
void ZmqSocket::Call(ZmqWaiter& waiter, Callback ZmqCallbacks::* member, Args... args) {
  auto* const self = static_cast<ZmqSocket*>(waiter.owner);
  Callback callback = std::move(self->callbacks_.*member);
  callback(std::move(args)...);
  if (waiter.socket != nullptr) {
    self->callbacks_.*member = std::move(callback);
  }
}

void ZmqSocket::TakeMessages(ZmqWaiter& waiter) {
  std::vector<std::string> frames;
  for (int i = 0; i < kMessagesATurn && waiter.socket != nullptr; ++i) {
    if (!Receive(waiter.socket, frames)) {
      return;
    }
    if (frames.size() <= limits::kZmqFramesMax) {
      Call(waiter, &ZmqCallbacks::on_message, std::move(frames));
    }
  }
}

void ZmqSocket::TakeEvents(ZmqWaiter& waiter) {
  std::vector<std::string> frames;
  while (waiter.socket != nullptr && Receive(waiter.socket, frames)) {
    uint16_t event = 0;
    if (frames.empty() || frames[0].size() < sizeof event) {
      continue;
    }
    std::memcpy(&event, frames[0].data(), sizeof event);
    const ZmqCallbacks& callbacks = static_cast<ZmqSocket*>(waiter.owner)->callbacks_;
    if (event == ZMQ_EVENT_DISCONNECTED && callbacks.on_disconnected) {
      Call(waiter, &ZmqCallbacks::on_disconnected);
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && callbacks.on_connected) {
      Call(waiter, &ZmqCallbacks::on_connected);
    }
  }
}

Status ZmqSocket::Send(std::span<const std::string_view> frames) {
  DCHECK(loop_.InLoop());
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(socket_, frames[i].data(), frames[i].size(), flags) < 0) {
      return zmq_errno() == EAGAIN ? Fail(Code::kResourceExhausted, "the socket's queue is full")
                                   : ZmqFailed("send");
    }
  }
  return {};
}

std::string ZmqSocket::bound_to() const {
  char text[256] = {};
  size_t size = sizeof text;
  return zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) == 0 ? text : "";
}

}  // namespace fak::net

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_function.h"
#include "net/zmq_endpoint.h"
#include "net/zmq_loop.h"

namespace fak::net {

struct ZmqWaiter;

enum class ZmqPattern : uint8_t { kPublish, kSubscribe, kRouter, kDealer };

struct ZmqSocketOptions {
  ZmqPattern pattern = ZmqPattern::kSubscribe;
  ZmqEndpoint endpoint = {};
  bool bind = false;  // else it connects, and goes on trying to for ever
  // What this socket sends or takes is in clear: an endpoint that others than this machine could
  // bind to or listen at is refused without this.
  bool allow_public = false;
  std::string topic = {};  // kSubscribe: what the first frame must begin with
  // Messages that wait in each direction and for each peer. Full: a publisher drops what is for
  // that subscriber, a router what is for that peer, a subscriber's publisher drops in its place;
  // a dealer's Send() fails. No socket ever blocks.
  int queue_max = 1000;
};

struct ZmqCallbacks {
  // The frames of one message; the callback may destroy the socket.
  UniqueFunction<void(std::vector<std::string>)> on_message = {};
  // kSubscribe and kDealer, as often as it happens.
  UniqueFunction<void()> on_connected = {};
  UniqueFunction<void()> on_disconnected = {};
};

// One ZeroMQ socket on a loop: the only place that sees libzmq, with zmq_loop.cc. Loop thread only.
// A message of more than kZmqFramesMax frames is dropped; a peer that sends a frame of more than
// kZmqFrameBytesMax is cut off. Addresses are IPv4 and IPv6.
class ZmqSocket {
 public:
  // kPermissionDenied: a public endpoint without allow_public. kIoError: libzmq refused (the
  // address is taken, ...).
  [[nodiscard]] static Result<std::unique_ptr<ZmqSocket>> Open(ZmqLoop& loop,
                                                               const ZmqSocketOptions& options,
                                                               ZmqCallbacks callbacks);
  ~ZmqSocket();  // unsent messages are dropped
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  // kResourceExhausted: the queue is full, nothing was sent.
  [[nodiscard]] Status Send(std::span<const std::string_view> frames);
  // Where it is bound, with the port that was chosen.
  std::string bound_to() const;

 private:
  explicit ZmqSocket(ZmqLoop& loop) : loop_(loop) {}
  Status Configure(const ZmqSocketOptions& options);
  Status Watch();
  std::shared_ptr<ZmqWaiter> Wait(void* socket, void (*on_readable)(ZmqWaiter&));
  void Close(std::shared_ptr<ZmqWaiter>& waiter);
  template <class Callback, class... Args>
  static void Call(ZmqWaiter& waiter, Callback ZmqCallbacks::* member, Args... args);
  static void TakeMessages(ZmqWaiter& waiter);
  static void TakeEvents(ZmqWaiter& waiter);

  ZmqLoop& loop_;
  ZmqCallbacks callbacks_;
  void* socket_ = nullptr;
  std::shared_ptr<ZmqWaiter> messages_;
  std::shared_ptr<ZmqWaiter> events_;  // connected, disconnected
};

}  // namespace fak::net

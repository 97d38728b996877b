#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "sockets.h"

namespace fak::e2e {

// An engine that only streams: an OpenAI chat upstream whose every answer is scripted by its own
// request. The prompt says how:
//
//   events=N     chunks with text (the last one with a finish reason)
//   gap_us=N     time between two of them; 0: as fast as they are taken, all streams in turn
//   hold=1       after the first chunk nothing more comes, until the client goes
//
// The text of a chunk is the time at which it was sent, which the client subtracts from the time at
// which it got there. Each chunk leaves in one send() of its own.
class Upstream final : private Handler {
 public:
  Upstream(Epoll& epoll, uint16_t port);
  ~Upstream() override;

  // Sends what is due, a little of it; call it between two waits.
  void SendDue();
  // When it has something to send next; INT64_MAX: nothing.
  int64_t NextNs() const;
  // After a wait: frees connections that have gone.
  void Forget() { gone_.clear(); }

 private:
  struct Connection;
  using Held = std::shared_ptr<Connection>;
  struct Later {
    bool operator()(const Held& a, const Held& b) const;
  };

  void Handle(uint32_t events) override;  // accepts
  void Happened(Connection& connection, uint32_t events);
  void Close(Connection& connection);
  void Read(Connection& connection);
  void TakeBody(Connection& connection, std::string_view bytes);
  void Answer(Connection& connection);
  void Begin(Connection& connection);
  void Schedule(const Held& connection);
  void SendNext(const Held& connection);
  void AppendEvent(Connection& connection);
  void Flush(Connection& connection);

  Epoll& epoll_;
  const int listener_;
  std::map<Connection*, Held> open_;
  std::vector<Held> gone_;
  std::priority_queue<Held, std::vector<Held>, Later> paced_;
  std::deque<Held> ready_;
  std::string buffer_;
  std::string event_;
};

}  // namespace fak::e2e

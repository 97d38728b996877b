// What both ends of the load share: nonblocking sockets with the same options whatever is between
// them, one epoll, one clock.
#pragma once

#include <sys/epoll.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fak::e2e {

// Of CLOCK_MONOTONIC.
int64_t NowNs();

// TCP_NODELAY, and TCP_QUICKACK, which the kernel takes back by itself: with neither, a proxy that
// leaves Nagle's algorithm on waits 40 ms for a delayed acknowledgement. Set by both ends on
// every socket, and QUICKACK again after every read, so that all proxies meet the same peers.
void SetTcpOptions(int fd);
void AcknowledgeAtOnce(int fd);

int Listen(uint16_t port);           // on 127.0.0.1; ends the program when it can't
int StartConnecting(uint16_t port);  // to 127.0.0.1
bool WouldBlock();                   // what errno says of the last call

// Who is told what happens on a descriptor.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void Handle(uint32_t events) = 0;
};

class Epoll {
 public:
  Epoll();
  void Add(int fd, Handler* handler);
  void Want(int fd, Handler* handler, bool writing);
  // Waits until something happens or that time has come, INT64_MAX: for ever; and tells the
  // handlers.
  void Wait(int64_t until_ns);

 private:
  int fd_;
  std::vector<epoll_event> events_;
};

// The number behind the first NAME= of a text; `otherwise` where there is none.
int64_t NumberAfter(std::string_view text, std::string_view name, int64_t otherwise);

// Of words of the form NAME=VALUE.
class Arguments {
 public:
  explicit Arguments(std::string_view line);
  int64_t Number(const std::string& name, int64_t otherwise) const;
  std::string Text(const std::string& name, const std::string& otherwise) const;

 private:
  std::map<std::string, std::string> values_;
};

// Enough descriptors for thousands of streams.
void RaiseDescriptorLimit();

}  // namespace fak::e2e

#include "sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace fak::e2e {
namespace {

constexpr int kBacklog = 4096;
constexpr size_t kEventsMax = 256;
constexpr int64_t kNsPerSecond = 1'000'000'000;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

void SetTcpOptions(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  AcknowledgeAtOnce(fd);
}

void AcknowledgeAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

int Listen(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = Loopback(port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, kBacklog) != 0) {
    Die("listen");
  }
  return fd;
}

int StartConnecting(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    Die("socket");
  }
  SetTcpOptions(fd);
  const sockaddr_in address = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    Die("connect");
  }
  return fd;
}

bool WouldBlock() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

Epoll::Epoll() : fd_(epoll_create1(0)), events_(kEventsMax) {}

void Epoll::Add(int fd, Handler* handler) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = handler;
  if (epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    Die("epoll_ctl");
  }
}

void Epoll::Want(int fd, Handler* handler, bool writing) {
  epoll_event event{};
  event.events = EPOLLIN | (writing ? uint32_t{EPOLLOUT} : 0);
  event.data.ptr = handler;
  epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event);
}

void Epoll::Wait(int64_t until_ns) {
  const int64_t left_ns = std::max<int64_t>(0, until_ns == INT64_MAX ? 0 : until_ns - NowNs());
  const timespec left{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
  const int got = epoll_pwait2(fd_, events_.data(), static_cast<int>(kEventsMax),
                               until_ns == INT64_MAX ? nullptr : &left, nullptr);
  for (int i = 0; i < got; ++i) {
    static_cast<Handler*>(events_[static_cast<size_t>(i)].data.ptr)
        ->Handle(events_[static_cast<size_t>(i)].events);
  }
}

int64_t NumberAfter(std::string_view text, std::string_view name, int64_t otherwise) {
  const size_t at = text.find(std::string(name) + "=");
  if (at == std::string_view::npos) {
    return otherwise;
  }
  int64_t number = otherwise;
  const char* begin = text.data() + at + name.size() + 1;
  std::from_chars(begin, text.data() + text.size(), number);
  return number;
}

Arguments::Arguments(std::string_view line) {
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    if (const size_t equals = word.find('='); equals != std::string_view::npos) {
      values_[std::string(word.substr(0, equals))] = word.substr(equals + 1);
    }
  }
}

int64_t Arguments::Number(const std::string& name, int64_t otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : NumberAfter(name + "=" + found->second, name, 0);
}

std::string Arguments::Text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace fak::e2e

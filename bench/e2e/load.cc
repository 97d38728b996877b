// Both ends of a proxy under measurement, on one thread: an upstream (upstream.h), and clients
// (client.h) as often as they are asked for. One thread, so that neither end waits for the other's
// turn on their core.
//
//   e2e_load upstream=PORT
//
// Reads a load a line from standard input, in the words of client.h, runs it, and answers with a
// line of JSON. The streams of one with hold=1 stay until the next line. Ends with its input.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client.h"
#include "sockets.h"
#include "upstream.h"

namespace fak::e2e {
namespace {

// Lines of standard input, one at a time.
class Orders final : public Handler {
 public:
  void Handle(uint32_t) override {
    std::array<char, 4096> bytes;
    const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
    ended_ = got <= 0;
    text_.append(bytes.data(), static_cast<size_t>(got > 0 ? got : 0));
  }
  bool ended() const { return ended_; }
  std::optional<std::string> Take() {
    const size_t end = text_.find('\n');
    if (end == std::string::npos) {
      return std::nullopt;
    }
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

 private:
  std::string text_;
  bool ended_ = false;
};

void Run(uint16_t port) {
  Epoll epoll;
  Upstream upstream(epoll, port);
  Orders orders;
  epoll.Add(STDIN_FILENO, &orders);
  std::unique_ptr<Client> client;
  bool reported = true;
  while (!orders.ended()) {
    if (std::optional<std::string> line = orders.Take()) {
      client = std::make_unique<Client>(epoll, Load(Arguments(*line)));
      reported = false;
    }
    upstream.SendDue();
    int64_t until_ns = upstream.NextNs();
    if (client != nullptr && !reported) {
      client->Start();
      until_ns = std::min(until_ns, client->NextNs());
    }
    epoll.Wait(until_ns);
    upstream.Forget();
    if (client != nullptr && !reported && client->done()) {
      reported = true;
      std::printf("%s\n", client->Report().c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace fak::e2e

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  fak::e2e::RaiseDescriptorLimit();
  const fak::e2e::Arguments arguments(argc > 1 ? argv[1] : "");
  fak::e2e::Run(static_cast<uint16_t>(arguments.Number("upstream", 0)));
}

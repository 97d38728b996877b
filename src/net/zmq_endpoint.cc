#include "net/zmq_endpoint.h"

#include <optional>

#include "base/strings.h"
#include "net/url.h"

namespace fak::net {
namespace {

bool IsPort(std::string_view text) {
  const std::optional<uint64_t> port = ParseUint(text);
  return port && *port >= 1 && *port <= 65535;
}

tl::unexpected<Error> Refuse(std::string_view text, const std::string& why) {
  return Fail(Code::kInvalidArgument, "endpoint \"" + std::string(text) + "\": " + why, "endpoint");
}

}  // namespace

std::string ZmqEndpoint::ToString() const {
  if (transport != "tcp") {
    return transport + "://" + name;
  }
  const bool bare_v6 = host.find(':') != std::string::npos;
  return "tcp://" + (bare_v6 ? "[" + host + "]" : host) + ":" + port;
}

bool ZmqEndpoint::local() const {
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 written as IPv6
  return transport != "tcp" ||
         IsLoopbackHost(host.starts_with(kMapped) ? std::string_view(host).substr(kMapped.size())
                                                  : std::string_view(host));
}

Result<ZmqEndpoint> ZmqEndpoint::ForRank(int32_t rank) const {
  ZmqEndpoint moved = *this;
  if (rank == 0) {
    return moved;
  }
  if (transport != "tcp") {
    moved.name += "_dp" + std::to_string(rank);
    return moved;
  }
  moved.port = std::to_string(ParseInt(port).value_or(65536) + rank);
  if (!IsPort(moved.port)) {
    return Refuse(ToString(), "has no port for rank " + std::to_string(rank));
  }
  return moved;
}

Result<ZmqEndpoint> ParseZmqEndpoint(std::string_view text) {
  ZmqEndpoint endpoint;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) {
    return Refuse(text, "must be like tcp://127.0.0.1:5557");
  }
  endpoint.transport = text.substr(0, scheme);
  const std::string_view rest = text.substr(scheme + 3);
  if (endpoint.transport == "inproc" || endpoint.transport == "ipc") {
    endpoint.name = rest;
    return rest.empty() ? Result<ZmqEndpoint>(Refuse(text, "has no name")) : endpoint;
  }
  if (endpoint.transport != "tcp") {
    return Refuse(text, "must begin with tcp://, inproc:// or ipc://");
  }
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return Refuse(text, "has no host or no port");
  }
  std::string_view host = rest.substr(0, colon);
  endpoint.port = rest.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Refuse(text, "needs brackets around an IPv6 address");
  }
  endpoint.host = ToLower(host);
  if (endpoint.port != "*" && !IsPort(endpoint.port)) {
    return Refuse(text, "port must be 1 to 65535");
  }
  if (endpoint.host.find_first_of(" ;/@") != std::string::npos || endpoint.host.empty()) {
    return Refuse(text, "has no host");
  }
  return endpoint;
}

}  // namespace fak::net

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fak::net {

// Where a server is. Plain value.
struct Origin {
  bool tls = false;
  std::string host;  // lower case; IPv6 without brackets
  uint16_t port = 80;

  friend auto operator<=>(const Origin&, const Origin&) = default;
  // For the Host header: brackets where needed, no default port.
  std::string HostHeader() const;
  std::string ToString() const;  // "https://host:8443"
};

struct Url {
  Origin origin;
  std::string target;  // path and query, at least "/"; a fragment is dropped
};

// "http://" or "https://" URLs only. User names in URLs are refused: secrets don't belong there.
// kInvalidArgument says what is wrong.
[[nodiscard]] Result<Url> ParseUrl(std::string_view text);

// Whether a host names this machine itself: localhost, 127.0.0.0/8, ::1.
bool IsLoopbackHost(std::string_view host);

}  // namespace fak::net

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "net/url.h"

namespace fak::net {

// Where a server listens, to tell an upstream that is the server itself. Owns its text; any thread.
class OwnAddress {
 public:
  // `host`: numeric; 0.0.0.0 and :: are every address of this machine (:: also those of IPv4).
  OwnAddress(std::string host, uint16_t port) : host_(std::move(host)), port_(port) {}

  // Whether a connection there would come back here, by any of the addresses that its host stands
  // for: 0.0.0.0 and :: connect to this machine, 127.1 is 127.0.0.1. Only a name is waited for, as
  // long as the system takes to resolve it and until `until` at most; one that isn't resolved by
  // then, or can't be, leads elsewhere. (What leads back by a way that can't be seen from here, a
  // proxy's or a translated address's, is refused when a request comes back: Via.)
  bool IsAt(const Origin& origin, std::chrono::steady_clock::time_point until) const;

 private:
  const std::string host_;
  const uint16_t port_;
};

}  // namespace fak::net

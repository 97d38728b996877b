#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace fak::net {

// What a DNS server said, and for how long that holds.
struct DnsAddresses {
  std::vector<std::string> addresses;  // numeric, IPv6 without brackets; sorted, each once
  uint32_t ttl_s = 0;                  // the least of all records
};
struct DnsService {
  std::string host;  // a name, without the dot at its end
  uint16_t port = 0;
  uint16_t priority = 0;  // lower first
  uint16_t weight = 0;    // share among those of one priority
  auto operator<=>(const DnsService&) const = default;
};
struct DnsServices {
  std::vector<DnsService> services;  // sorted, each once
  uint32_t ttl_s = 0;
};

// "IPv4" or "IPv4:PORT", or empty; else kInvalidArgument.
[[nodiscard]] Status CheckDnsServer(const std::string& server);

// Asks DNS itself, and nothing else that the system resolves names with, so that answers have their
// time to live. `server`: "IPv4" or "IPv4:PORT"; empty: those of /etc/resolv.conf, whose search
// list is used either way. kNotFound: there is no such name, or none with such records.
// kUnavailable: no server has answered. kDataCorrupt: what came can't be read. kInvalidArgument:
// `server` is none. Any thread; blocks for seconds where nobody answers.
[[nodiscard]] Result<DnsAddresses> LookUpAddresses(const std::string& name,
                                                   const std::string& server = "");
[[nodiscard]] Result<DnsServices> LookUpServices(const std::string& name,
                                                 const std::string& server = "");

}  // namespace fak::net

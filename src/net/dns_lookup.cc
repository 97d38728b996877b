#include "net/dns_lookup.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <resolv.h>

#include <netdb.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"

// With glibc's resolver: its state is an argument, so that threads don't share it, and it asks
// again over TCP where an answer was cut.
namespace fak::net {
namespace {

constexpr size_t kAnswerBytesMax = 64 * 1024;

Result<sockaddr_in> ParseServer(const std::string& server) {
  constexpr uint16_t kDnsPort = 53;
  const auto cut = Cut(server, ":");
  const std::string host(cut ? cut->first : server);
  const auto port = cut ? ParseUint(cut->second) : std::optional<uint64_t>(kDnsPort);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1 || !port || *port == 0 ||
      *port > std::numeric_limits<uint16_t>::max()) {
    return Fail(Code::kInvalidArgument,
                server + ": must be the IPv4 address of a DNS server, with a port or without");
  }
  address.sin_port = htons(static_cast<uint16_t>(*port));
  return address;
}

// Closed with its sockets.
class Resolver {
 public:
  Resolver() : ok_(res_ninit(&state_) == 0) {}
  ~Resolver() {
    if (ok_) {
      res_nclose(&state_);
    }
  }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  Status Use(const std::string& server) {
    if (!ok_) {
      return Fail(Code::kUnavailable, "the system's resolver can't be set up");
    }
    state_.retrans = 1;  // seconds that a server gets
    state_.retry = 2;
    if (!server.empty()) {
      TRY_ASSIGN(state_.nsaddr_list[0], ParseServer(server));
      state_.nscount = 1;
    }
    return {};
  }

  // The bytes of an answer that has records.
  Result<std::vector<uint8_t>> Ask(const std::string& name, ns_type type) {
    std::vector<uint8_t> answer(kAnswerBytesMax);
    const int bytes = res_nsearch(&state_, name.c_str(), ns_c_in, type, answer.data(),
                                  static_cast<int>(answer.size()));
    if (bytes < 0) {
      const bool none = state_.res_h_errno == HOST_NOT_FOUND || state_.res_h_errno == NO_DATA;
      return none ? Fail(Code::kNotFound, name + ": DNS has no such records")
                  : Fail(Code::kUnavailable, name + ": no DNS server has answered it");
    }
    answer.resize(std::min(static_cast<size_t>(bytes), answer.size()));
    return answer;
  }

 private:
  struct __res_state state_ = {};
  const bool ok_;
};

// Calls on_record for each record of the type; the least time to live of all that answer.
template <class OnRecord>
Result<uint32_t> Read(const std::vector<uint8_t>& answer, ns_type type, OnRecord on_record) {
  ns_msg message{};
  if (ns_initparse(answer.data(), static_cast<int>(answer.size()), &message) != 0) {
    return Fail(Code::kDataCorrupt, "DNS answered what can't be read");
  }
  uint32_t ttl_s = std::numeric_limits<uint32_t>::max();
  for (int i = 0; i < ns_msg_count(message, ns_s_an); ++i) {
    ns_rr record{};
    if (ns_parserr(&message, ns_s_an, i, &record) != 0) {
      return Fail(Code::kDataCorrupt, "DNS answered what can't be read");
    }
    ttl_s = std::min<uint32_t>(ttl_s, ns_rr_ttl(record));  // aliases on the way included
    if (ns_rr_type(record) == type) {
      on_record(message, record);
    }
  }
  return ttl_s;
}

template <class List>
void SortOnce(List& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

Status CheckDnsServer(const std::string& server) {
  if (!server.empty()) {
    TRY(ParseServer(server));
  }
  return {};
}

Result<DnsAddresses> LookUpAddresses(const std::string& name, const std::string& server) {
  Resolver resolver;
  TRY(resolver.Use(server));
  DnsAddresses found;
  found.ttl_s = std::numeric_limits<uint32_t>::max();
  std::optional<Error> maybe_error;
  constexpr std::array<std::pair<ns_type, int>, 2> kKinds = {
      {{ns_t_a, AF_INET}, {ns_t_aaaa, AF_INET6}}};
  for (const auto& [type, family] : kKinds) {
    const auto answer = resolver.Ask(name, type);
    if (!answer) {
      // One that can't be had now is not one that isn't there.
      if (!maybe_error || answer.error().code != Code::kNotFound) {
        maybe_error = answer.error();
      }
      continue;
    }
    const size_t wanted = family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
    TRY_ASSIGN(const uint32_t ttl_s,
               Read(*answer, type, [&, kind = family](const ns_msg&, const ns_rr& record) {
                 char text[INET6_ADDRSTRLEN] = {};
                 if (ns_rr_rdlen(record) == wanted &&
                     inet_ntop(kind, ns_rr_rdata(record), text, sizeof(text)) != nullptr) {
                   found.addresses.emplace_back(text);
                 }
               }));
    found.ttl_s = std::min(found.ttl_s, ttl_s);
  }
  if (maybe_error && (found.addresses.empty() || maybe_error->code != Code::kNotFound)) {
    return Fail(*std::move(maybe_error));
  }
  SortOnce(found.addresses);
  return found;
}

Result<DnsServices> LookUpServices(const std::string& name, const std::string& server) {
  constexpr size_t kFixedBytes = 6;  // priority, weight, port
  Resolver resolver;
  TRY(resolver.Use(server));
  TRY_ASSIGN(const auto answer, resolver.Ask(name, ns_t_srv));
  DnsServices found;
  bool broken = false;
  TRY_ASSIGN(found.ttl_s, Read(answer, ns_t_srv, [&](const ns_msg& message, const ns_rr& record) {
               const uint8_t* data = ns_rr_rdata(record);
               char host[NS_MAXDNAME] = {};
               if (ns_rr_rdlen(record) <= kFixedBytes ||
                   dn_expand(ns_msg_base(message), ns_msg_end(message), data + kFixedBytes, host,
                             sizeof(host)) < 0) {
                 broken = true;
                 return;
               }
               const auto number = [data](size_t at) {
                 return static_cast<uint16_t>(data[at] << 8 | data[at + 1]);
               };
               std::string text = host;
               if (text.ends_with('.')) {
                 text.pop_back();
               }
               if (!text.empty()) {  // "." alone: the service is decidedly not there
                 found.services.push_back({std::move(text), number(4), number(0), number(2)});
               }
             }));
  if (broken) {
    return Fail(Code::kDataCorrupt, name + ": DNS answered what can't be read");
  }
  if (found.services.empty()) {
    return Fail(Code::kNotFound, name + ": DNS has no such records");
  }
  SortOnce(found.services);
  return found;
}

}  // namespace fak::net

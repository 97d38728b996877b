#include "net/own_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "net/asio.h"

namespace fak::net {
namespace {

using Address = asio::ip::address;

// IPv4 inside IPv6 as IPv4, and without the interface of a link-local address.
Address Plain(const Address& address) {
  if (!address.is_v6()) {
    return address;
  }
  const asio::ip::address_v6 v6 = address.to_v6();
  return v6.is_v4_mapped() ? Address(asio::ip::make_address_v4(asio::ip::v4_mapped, v6))
                           : Address(asio::ip::address_v6(v6.to_bytes()));
}

std::optional<Address> AddressOf(const sockaddr* socket_address) {
  if (socket_address != nullptr && socket_address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, socket_address, sizeof v4);
    return Address(asio::ip::address_v4(ntohl(v4.sin_addr.s_addr)));
  }
  if (socket_address != nullptr && socket_address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, socket_address, sizeof v6);
    asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return Plain(Address(asio::ip::address_v6(bytes)));
  }
  return std::nullopt;
}

bool IsOfAnInterface(const Address& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return false;
  }
  bool found = false;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    found = found || AddressOf(each->ifa_addr) == address;
  }
  freeifaddrs(all);
  return found;
}

// As connecting would; numeric: nobody is asked.
std::vector<Address> Resolve(const std::string& host, bool numeric) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = numeric ? AI_NUMERICHOST : 0;
  addrinfo* all = nullptr;
  std::vector<Address> addresses;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &all) != 0) {
    return addresses;
  }
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    if (const auto address = AddressOf(each->ai_addr)) {
      addresses.push_back(*address);
    }
  }
  freeaddrinfo(all);
  return addresses;
}

// The thread is left behind where the name takes longer; callers ask for one name after the other,
// so that is one a call.
std::vector<Address> ResolveName(const std::string& host,
                                 std::chrono::steady_clock::time_point until) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable wake;
    std::optional<std::vector<Address>> addresses;
  };
  if (std::chrono::steady_clock::now() >= until) {
    return {};
  }
  const auto answer = std::make_shared<Answer>();
  std::thread([answer, host] {
    std::vector<Address> found = Resolve(host, /*numeric=*/false);
    const std::lock_guard lock(answer->mutex);
    answer->addresses = std::move(found);
    answer->wake.notify_all();
  }).detach();
  std::unique_lock lock(answer->mutex);
  answer->wake.wait_until(lock, until, [&answer] { return answer->addresses.has_value(); });
  return answer->addresses.value_or(std::vector<Address>());
}

bool LeadsTo(const Address& given, const Address& listens) {
  Address address = given;
  if (address.is_unspecified()) {
    address = address.is_v4() ? Address(asio::ip::address_v4::loopback())
                              : Address(asio::ip::address_v6::loopback());
  }
  if (!listens.is_unspecified()) {
    return address == listens;
  }
  return (address.is_v4() || listens.is_v6()) &&
         (address.is_loopback() || IsOfAnInterface(address));
}

}  // namespace

bool OwnAddress::IsAt(const Origin& origin, std::chrono::steady_clock::time_point until) const {
  error_code error;
  const Address listens = Plain(asio::ip::make_address(host_, error));
  if (error || port_ == 0 || origin.port != port_) {
    return false;
  }
  std::vector<Address> addresses = Resolve(origin.host, /*numeric=*/true);
  if (addresses.empty()) {
    addresses = ResolveName(origin.host, until);
  }
  return std::any_of(addresses.begin(), addresses.end(),
                     [&listens](const Address& each) { return LeadsTo(each, listens); });
}

}  // namespace fak::net

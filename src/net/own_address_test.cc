#include "net/own_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <tuple>

namespace fak::net {
namespace {

constexpr uint16_t kPort = 8000;

bool IsAt(const char* listens, const std::string& authority,
          std::chrono::milliseconds wait = std::chrono::seconds(5)) {
  const auto url = ParseUrl("http://" + authority);
  EXPECT_TRUE(url) << authority;
  return OwnAddress(listens, kPort).IsAt(url->origin, std::chrono::steady_clock::now() + wait);
}

TEST(OwnAddress, IsToldByWhereAConnectionLeads) {
  const std::tuple<const char*, const char*, bool> kCases[] = {
      {"127.0.0.1", "127.0.0.1:8000", true},
      {"127.0.0.1", "127.1:8000", true},
      {"127.0.0.1", "0x7f000001:8000", true},
      {"127.0.0.1", "2130706433:8000", true},
      {"127.0.0.1", "0177.0.0.1:8000", true},
      {"127.0.0.1", "0.0.0.0:8000", true},
      {"127.0.0.1", "0:8000", true},
      {"127.0.0.1", "[::ffff:127.0.0.1]:8000", true},
      {"127.0.0.1", "[::ffff:7f00:1]:8000", true},
      {"127.0.0.1", "localhost:8000", true},
      {"127.0.0.1", "LocalHost:8000", true},
      {"127.0.0.1", "127.0.0.1:8001", false},
      {"127.0.0.1", "127.0.0.1", false},
      {"127.0.0.1", "127.0.0.2:8000", false},  // somebody else may listen there
      {"127.0.0.1", "[::1]:8000", false},
      {"127.0.0.1", "192.0.2.1:8000", false},
      {"::1", "[::1]:8000", true},
      {"::1", "[0:0::1]:8000", true},
      {"::1", "[::]:8000", true},
      {"::1", "127.0.0.1:8000", false},
      {"0.0.0.0", "127.0.0.2:8000", true},
      {"0.0.0.0", "0.0.0.0:8000", true},
      {"0.0.0.0", "192.0.2.1:8000", false},
      {"0.0.0.0", "[::1]:8000", false},
      {"::", "[::1]:8000", true},
      {"::", "127.0.0.1:8000", true},
      {"::", "[2001:db8::1]:8000", false},
      {"192.0.2.1", "192.0.2.1:8000", true},
      {"192.0.2.1", "127.0.0.1:8000", false},
  };
  for (const auto& [listens, authority, here] : kCases) {
    EXPECT_EQ(IsAt(listens, authority), here) << listens << " and " << authority;
  }
}

TEST(OwnAddress, IsThatOfEveryInterface) {
  ifaddrs* all = nullptr;
  ASSERT_EQ(getifaddrs(&all), 0);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    std::array<char, INET_ADDRSTRLEN> text;
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    const std::string authority = std::string(text.data()) + ":8000";
    EXPECT_TRUE(IsAt("0.0.0.0", authority)) << authority;
    EXPECT_TRUE(IsAt("::", authority)) << authority;
    EXPECT_FALSE(IsAt("192.0.2.1", authority)) << authority;
  }
  freeifaddrs(all);
}

TEST(OwnAddress, WaitsForANameNoLongerThanItMay) {
  EXPECT_FALSE(IsAt("127.0.0.1", "localhost:8000", std::chrono::milliseconds(0)));
  EXPECT_TRUE(IsAt("127.0.0.1", "127.1:8000", std::chrono::milliseconds(0)));
  EXPECT_FALSE(IsAt("127.0.0.1", "no-such-host.invalid:8000", std::chrono::milliseconds(50)));
  EXPECT_FALSE(OwnAddress("127.0.0.1", 0).IsAt({false, "127.0.0.1", 80}, {}))
      << "a port that isn't known yet";
}

}  // namespace
}  // namespace fak::net

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "net/url.h"

namespace fak::net {

// An HTTP proxy on the way to an origin: requests to a plain origin name it in full ("GET
// http://host/path"), TLS goes through a tunnel (CONNECT).
struct Proxy {
  Origin origin;              // never with TLS itself
  std::string authorization;  // "Basic ...", or empty. A secret
};

// Which origins are reached through which proxy. Immutable.
class ProxyRules {
 public:
  ProxyRules() = default;  // none through any

  // From https_proxy (TLS), http_proxy (the rest), all_proxy (both) and no_proxy, each in lower
  // case or else in upper, as curl and Python's clients read them; an empty one is none. A proxy is
  // [http://][user:password@]host[:port]. no_proxy: "*", or names (with all below them, a leading
  // dot or not), addresses and ranges ("10.0.0.0/8"), each with ":port" where only that port is
  // meant, separated by commas. `variable` gives a variable's value, or "".
  // kInvalidArgument, kUnsupported (SOCKS, https:// to the proxy): naming the variable, not its
  // value, which may hold a password.
  [[nodiscard]] static Result<ProxyRules> Read(FunctionRef<std::string(const char*)> variable);
  [[nodiscard]] static Result<ProxyRules> FromEnvironment();

  // Null: directly. Loopback never goes through a proxy: it would be the proxy's own machine.
  const Proxy* For(const Origin& origin) const;

 private:
  struct Exception {
    std::string name;              // lower case, without its leading dot
    std::optional<uint16_t> port;  // absent: all
  };
  static bool Matches(const Exception& exception, const Origin& origin);

  std::optional<Proxy> plain_;
  std::optional<Proxy> tls_;
  std::vector<Exception> direct_;
  bool all_direct_ = false;
};

}  // namespace fak::net

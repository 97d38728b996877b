#include "net/proxy.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>

#include "base/strings.h"

namespace fak::net {
namespace {

namespace ip = boost::asio::ip;
using boost::system::error_code;

std::string Base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  std::vector<unsigned char> in(bytes.begin(), bytes.end());
  std::vector<unsigned char> encoded(out.size());
  const int size = EVP_EncodeBlock(encoded.data(), in.data(), static_cast<int>(in.size()));
  out.assign(encoded.begin(), encoded.begin() + size);
  return out;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
                        HexDigit(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// From the lower-case name first. The name that was found is given too.
std::pair<std::string, std::string> Variable(FunctionRef<std::string(const char*)> variable,
                                             const char* lower, const char* upper) {
  std::string value = variable(lower);
  return value.empty() ? std::pair(std::string(upper), variable(upper))
                       : std::pair(std::string(lower), std::move(value));
}

Result<Proxy> ParseProxy(const std::string& name, std::string_view value) {
  const auto scheme_and_rest = Cut(value, "://");
  if (scheme_and_rest && !EqualsIgnoringCase(scheme_and_rest->first, "http")) {
    return Fail(Code::kUnsupported,
                name + ": only proxies that start with http:// are supported, not " +
                    std::string(scheme_and_rest->first) + "://");
  }
  std::string_view rest = scheme_and_rest ? scheme_and_rest->second : value;
  Proxy proxy;
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    proxy.authorization = "Basic " + Base64(PercentDecoded(rest.substr(0, at)));
    rest.remove_prefix(at + 1);
  }
  Result<Url> url = ParseUrl("http://" + std::string(rest));
  if (!url) {
    return Fail(Code::kInvalidArgument, name + ": isn't [http://][user:password@]host[:port]");
  }
  proxy.origin = std::move(url->origin);
  return proxy;
}

}  // namespace

Result<ProxyRules> ProxyRules::Read(FunctionRef<std::string(const char*)> variable) {
  ProxyRules rules;
  const auto all = Variable(variable, "all_proxy", "ALL_PROXY");
  for (const auto& [own, proxy] :
       {std::pair(Variable(variable, "http_proxy", "HTTP_PROXY"), &rules.plain_),
        std::pair(Variable(variable, "https_proxy", "HTTPS_PROXY"), &rules.tls_)}) {
    const auto& [name, value] = own.second.empty() ? all : own;
    if (!value.empty()) {
      TRY_ASSIGN(*proxy, ParseProxy(name, value));
    }
  }
  const auto exceptions = Variable(variable, "no_proxy", "NO_PROXY");
  for (const std::string_view item : Split(exceptions.second, ',')) {
    std::string_view name = Trim(item);
    if (name.empty()) {
      continue;
    }
    rules.all_direct_ = rules.all_direct_ || name == "*";
    Exception exception;
    const size_t colon = name.rfind(':');
    const bool one_colon = colon != std::string_view::npos && name.find(':') == colon;
    if (one_colon || (colon != std::string_view::npos && name.starts_with('['))) {
      const std::optional<uint64_t> port = ParseUint(name.substr(colon + 1));
      if (port && *port <= 65535) {
        exception.port = static_cast<uint16_t>(*port);
        name = name.substr(0, colon);
      }
    }
    if (name.starts_with('[') && name.ends_with(']')) {
      name = name.substr(1, name.size() - 2);
    }
    if (name.starts_with('.')) {
      name.remove_prefix(1);
    }
    exception.name = ToLower(name);
    rules.direct_.push_back(std::move(exception));
  }
  return rules;
}

Result<ProxyRules> ProxyRules::FromEnvironment() {
  return Read([](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
}

bool ProxyRules::Matches(const Exception& exception, const Origin& origin) {
  if (exception.port && *exception.port != origin.port) {
    return false;
  }
  if (origin.host == exception.name) {
    return true;
  }
  error_code not_numeric;
  const ip::address address = ip::make_address(origin.host, not_numeric);
  if (not_numeric) {
    return origin.host.ends_with("." + exception.name);
  }
  error_code no_range;
  if (address.is_v4()) {
    const ip::network_v4 range = ip::make_network_v4(exception.name, no_range);
    return !no_range &&
           ip::network_v4(address.to_v4(), range.prefix_length()).network() == range.network();
  }
  const ip::network_v6 range = ip::make_network_v6(exception.name, no_range);
  return !no_range &&
         ip::network_v6(address.to_v6(), range.prefix_length()).network() == range.network();
}

const Proxy* ProxyRules::For(const Origin& origin) const {
  const std::optional<Proxy>& proxy = origin.tls ? tls_ : plain_;
  const bool direct = !proxy || all_direct_ || IsLoopbackHost(origin.host) ||
                      std::any_of(direct_.begin(), direct_.end(), [&](const Exception& exception) {
                        return Matches(exception, origin);
                      });
  return direct ? nullptr : &*proxy;
}

}  // namespace fak::net

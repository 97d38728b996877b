#include "net/url.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"

namespace fak::net {
namespace {

tl::unexpected<Error> BadUrl(std::string_view text, std::string_view what) {
  return Fail(Code::kInvalidArgument, "URL \"" + std::string(text) + "\": " + std::string(what));
}

bool IsVisibleAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// Splits "host", "host:port", "[v6]:port"; false when it is none of these.
bool SplitAuthority(std::string_view authority, std::string_view* host, std::string_view* port) {
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) {
      return false;
    }
    *host = authority.substr(1, end - 1);
    *port = authority.substr(end + 1);
    return host->find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos &&
           host->find(':') != std::string_view::npos && (port->empty() || port->starts_with(':'));
  }
  const size_t colon = authority.find(':');
  *host = authority.substr(0, colon);
  *port = colon == std::string_view::npos ? std::string_view() : authority.substr(colon);
  const std::string lower = ToLower(*host);
  return !lower.empty() && std::all_of(lower.begin(), lower.end(), IsHostCharacter);
}

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  const auto scheme_and_rest = Cut(text, "://");
  if (!scheme_and_rest) {
    return BadUrl(text, "must start with http:// or https://");
  }
  url.origin.tls = EqualsIgnoringCase(scheme_and_rest->first, "https");
  if (!url.origin.tls && !EqualsIgnoringCase(scheme_and_rest->first, "http")) {
    return BadUrl(text, "must start with http:// or https://");
  }
  if (!IsVisibleAscii(text)) {
    return BadUrl(text, "has a blank, control or non-ASCII character");
  }
  std::string_view rest = scheme_and_rest->second;
  rest = rest.substr(0, rest.find('#'));
  const size_t target_at = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, target_at);
  if (authority.find('@') != std::string_view::npos) {
    // Not quoted: what is refused here is likely to hold a password.
    return Fail(Code::kInvalidArgument, "URL: user names and passwords in URLs aren't taken");
  }
  std::string_view host;
  std::string_view port;
  if (!SplitAuthority(authority, &host, &port)) {
    return BadUrl(text, "has no valid host");
  }
  url.origin.host = ToLower(host);
  url.origin.port = url.origin.tls ? 443 : 80;
  if (port.size() > 1) {
    const std::optional<uint64_t> number = ParseUint(port.substr(1));
    if (!number || *number == 0 || *number > 65535) {
      return BadUrl(text, "has no valid port");
    }
    url.origin.port = static_cast<uint16_t>(*number);
  }
  url.target = rest.substr(target_at);
  if (!url.target.starts_with('/')) {
    url.target.insert(0, "/");
  }
  return url;
}

std::string Origin::HostHeader() const {
  std::string out = host.find(':') == std::string::npos ? host : "[" + host + "]";
  if (port != (tls ? 443 : 80)) {
    out += ":" + std::to_string(port);
  }
  return out;
}

std::string Origin::ToString() const {
  return (tls ? "https://" : "http://") + HostHeader();
}

bool IsLoopbackHost(std::string_view host) {
  if (EqualsIgnoringCase(host, "localhost") || host == "::1") {
    return true;
  }
  const std::vector<std::string_view> parts = Split(host, '.');
  return parts.size() == 4 && parts[0] == "127" &&
         std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           const std::optional<uint64_t> number = ParseUint(part);
           return number && *number <= 255;
         });
}

}  // namespace fak::net

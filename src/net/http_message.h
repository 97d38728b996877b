#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/http_headers.h"

namespace fak::net {

using wire::HttpHeaders;

// A request as the server hands it out. Plain value.
struct HttpRequest {
  std::string method;   // as sent; methods are case-sensitive
  std::string target;   // as sent: "/v1/models?x=1"; absolute form has lost its origin
  HttpHeaders headers;  // as sent, framing and hop-by-hop fields included
  std::string body;     // without its framing
  int minor_version = 1;
  std::string peer;  // "127.0.0.1:51234"
  bool peer_is_loopback = false;
  bool tls = false;
  int64_t age_ns = 0;  // from its first byte to when it was handed out

  // The target up to the first "?", and what is behind it.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  std::string_view query() const {
    const size_t at = target.find('?');
    return at == std::string::npos ? std::string_view() : std::string_view(target).substr(at + 1);
  }
};

// A whole response. Content-Length, Connection, Transfer-Encoding and Date are the server's; such
// fields in `headers` are dropped. Control characters in values become blanks.
struct HttpResponse {
  int status = 200;
  HttpHeaders headers;
  std::string body;
};

// A request that never became one. What the server would say by itself: `status`.
struct HttpFault {
  int status = 400;  // 400, 408, 413, 417, 431, 500, 501, 505
  Error error;
  // What is known of it: the peer always, method, target and headers when they could be read.
  HttpRequest request;
};

// "OK", "Not Found"; "" for a number that has no standard phrase.
std::string_view HttpReason(int status);

}  // namespace fak::net

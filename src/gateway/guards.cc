#include <string>
#include <string_view>

#include "gateway/gateway.h"
#include "net/url.h"

// Who may ask for what.
namespace fak::gateway {
namespace {

bool IsInternal(std::string_view path) {
  return path.starts_with("/v1/fak/");
}

// Of "localhost:8000", in lower case; empty where it is none.
std::string HostIn(std::string_view authority) {
  const Result<net::Url> url = net::ParseUrl("http://" + std::string(authority));
  return url ? url->origin.host : "";
}

// Of "https://desk.example:8443"; empty of "null" and the like.
std::string HostOfOrigin(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? "" : HostIn(origin.substr(scheme + 3));
}

}  // namespace

// Whether a page that isn't this machine's own, nor of the origin that may call, made a browser
// send this.
bool Gateway::IsOfForeignPage(const net::HttpRequest& head) const {
  const std::string_view origin = head.headers.Get("origin").value_or("");
  return !origin.empty() && origin != options_.cors_origin &&
         !net::IsLoopbackHost(HostOfOrigin(origin));
}

// Whether a page of somebody else's may have made a browser send this: it names another origin, or
// found us under a name that isn't this machine's own (a name that now leads here).
bool Gateway::IsForeign(const net::HttpRequest& head) const {
  const auto host = head.headers.Get("host");
  return (host && !net::IsLoopbackHost(HostIn(*host))) || IsOfForeignPage(head);
}

// Whether a page of another site made a browser send this. One that was served under the name that
// it asks is none, whatever the port: a proxy before us may have another one, or TLS.
bool Gateway::IsCrossSite(const net::HttpRequest& head) const {
  if (options_.cors_origin == "*" || !IsOfForeignPage(head)) {
    return false;
  }
  const std::string from = HostOfOrigin(head.headers.Get("origin").value_or(""));
  return from.empty() || from != HostIn(head.headers.Get("host").value_or(""));
}

std::optional<Error> Gateway::Authorize(const net::HttpRequest& head, std::string_view path,
                                        const Route* maybe_route) const {
  if (maybe_route != nullptr && maybe_route->open) {
    return std::nullopt;
  }
  if (options_.keys.empty()) {
    if (IsInternal(path) && (!head.peer_is_loopback || IsForeign(head))) {
      return Error{Code::kPermissionDenied,
                   "without keys, " + std::string(path) +
                       " answers on the loopback interface only, under a name like localhost and "
                       "not to pages of other sites"};
    }
    // Others can't read what a GET answers, but a POST does its work before a browser looks.
    if (head.method == "POST" && IsCrossSite(head)) {
      return Error{Code::kPermissionDenied,
                   "without keys, " + std::string(path) +
                       " doesn't answer pages of other sites, and this request's Origin is one's: "
                       "--allowed-origin lets it in"};
    }
    return std::nullopt;
  }
  const std::optional<Tenant> tenant = options_.keys.Find(head.headers);
  if (!tenant) {
    return Error{Code::kUnauthenticated,
                 "a valid API key is needed (Authorization: Bearer, or "
                 "x-api-key)"};
  }
  if (IsInternal(path) && !tenant->admin) {
    return Error{Code::kPermissionDenied, std::string(path) + " needs an admin key"};
  }
  return std::nullopt;
}

// Names of replicas are for those who may ask for them too.
bool Gateway::MaySeeRoutes(const Call& call) const {
  return options_.keys.empty() ? call.request.peer_is_loopback && !IsForeign(call.request)
                               : call.context.tenant.admin;
}

}  // namespace fak::gateway

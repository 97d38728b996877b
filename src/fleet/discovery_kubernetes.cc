#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/key_file.h"
#include "fleet/discovery.h"
#include "fleet/discovery_client.h"
#include "fleet/discovery_thread.h"
#include "net/url.h"

// The endpoints of a Kubernetes service: its EndpointSlices, listed once and then watched.
namespace fak::fleet {
namespace {

constexpr int kWatchS = 300;       // that a watch is asked to last
constexpr int kQuietMs = 120'000;  // bookmarks come each minute: without them nobody is there
constexpr int kGone = 410;

const Json* At(const Json& object, const char* outer, const char* inner) {
  const Json* found = object.Find(outer);
  return found == nullptr ? nullptr : found->Find(inner);
}
std::string TextAt(const Json& object, const char* outer, const char* inner) {
  const Json* found = At(object, outer, inner);
  return found != nullptr && found->is_string() ? found->string() : "";
}
const Json::Array& ArrayAt(const Json& object, const char* key) {
  static const Json::Array kNone;
  const Json* found = object.Find(key);
  return found != nullptr && found->is_array() ? found->array() : kNone;
}
bool IsFalse(const Json* value) {
  return value != nullptr && value->is_bool() && !value->boolean();
}

// An error of the API, as a watch tells it: {"type": "ERROR", "object": {"code": 410 ...}}.
Error ErrorIn(const Json& status) {
  const Json* code = status.Find("code");
  const Json* message = status.Find("message");
  Error error{Code::kUpstreamError,
              "the watch ended: " + (message != nullptr && message->is_string()
                                         ? message->string()
                                         : status.Dump().substr(0, 200))};
  error.upstream_status =
      code != nullptr && code->is_number() ? static_cast<int>(code->AsInt().value_or(0)) : 0;
  return error;
}

class KubernetesDiscovery final : public Discovery {
 public:
  KubernetesDiscovery(DiscoverySpec spec, Membership& membership)
      : spec_(std::move(spec)),
        membership_(membership),
        thread_(spec_, membership, [this](DiscoveryClient& client) { return Round(client); }) {}

 private:
  Status Round(DiscoveryClient& client) {
    Status followed = ListAndFollow(client);
    if (followed) {
      return followed;
    }
    version_.clear();
    if (followed.error().upstream_status == kGone && std::exchange(listed_, false)) {
      return {};  // the versions that we know of are no more kept there: from the start
    }
    return followed;
  }

  Result<net::HttpClientRequest> Call(const std::string& more) const {
    TRY_ASSIGN(const net::Url url, net::ParseUrl(spec_.server));
    const size_t slash = spec_.name.find('/');
    net::HttpClientRequest request;
    request.origin = url.origin;
    request.target = (url.target == "/" ? "" : url.target) +
                     "/apis/discovery.k8s.io/v1/namespaces/" + spec_.name.substr(0, slash) +
                     "/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D" +
                     spec_.name.substr(slash + 1) + more;
    request.headers.Add("accept", "application/json");
    if (!spec_.token_file.empty()) {  // read each time: it is changed every hour
      TRY_ASSIGN(const std::string token, ReadKeyFile(spec_.token_file));
      request.headers.Add("authorization", "Bearer " + token);
    }
    return request;
  }

  Status ListAndFollow(DiscoveryClient& client) {
    if (version_.empty()) {
      TRY(List(client));
    }
    TRY_ASSIGN(net::HttpClientRequest request,
               Call("&watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(kWatchS) +
                    "&resourceVersion=" + version_));
    request.timeouts.idle_ms = kQuietMs;
    return client.Follow(std::move(request), [this](const Json& event) { return Take(event); });
  }

  Status List(DiscoveryClient& client) {
    TRY_ASSIGN(net::HttpClientRequest request, Call(""));
    TRY_ASSIGN(const Json list, client.Ask(std::move(request)));
    version_ = TextAt(list, "metadata", "resourceVersion");
    if (version_.empty()) {
      return Fail(Code::kUpstreamError,
                  "what is no list of EndpointSlices came from " + spec_.server);
    }
    slices_.clear();
    for (const Json& slice : ArrayAt(list, "items")) {
      slices_[TextAt(slice, "metadata", "name")] = ReadyIn(slice);
    }
    listed_ = true;
    return Tell();
  }

  Status Take(const Json& event) {
    const Json* type = event.Find("type");
    const Json* object = event.Find("object");
    if (type == nullptr || !type->is_string() || object == nullptr) {
      return Fail(Code::kUpstreamError, "the watch said what is no event");
    }
    if (type->string() == "ERROR") {
      return Fail(ErrorIn(*object));
    }
    version_ = TextAt(*object, "metadata", "resourceVersion");
    const std::string name = TextAt(*object, "metadata", "name");
    if (type->string() == "DELETED") {
      slices_.erase(name);
    } else if (type->string() == "ADDED" || type->string() == "MODIFIED") {
      slices_[name] = ReadyIn(*object);
    } else {
      return {};  // a bookmark, or what is not known yet
    }
    return Tell();
  }

  // Of a slice, each as a host and a port. One that nobody has said not to be ready is; one that
  // ends isn't, and drains here too.
  std::set<std::string> ReadyIn(const Json& slice) const {
    std::set<std::string> ready;
    const Json* port = nullptr;
    for (const Json& each : ArrayAt(slice, "ports")) {
      const Json* name = each.Find("name");
      const bool named = name != nullptr && name->is_string() && name->string() == spec_.port_name;
      if (port == nullptr && (spec_.port_name.empty() || named)) {
        port = each.Find("port");
      }
    }
    if (port == nullptr || !port->is_integer()) {
      return ready;
    }
    for (const Json& endpoint : ArrayAt(slice, "endpoints")) {
      if (IsFalse(At(endpoint, "conditions", "ready"))) {
        continue;
      }
      const Json::Array& addresses = ArrayAt(endpoint, "addresses");
      if (!addresses.empty() && addresses.front().is_string()) {  // the others are the same pod's
        const std::string& host = addresses.front().string();
        const bool bare = host.find(':') != std::string::npos;  // IPv6
        ready.insert((bare ? "[" + host + "]" : host) + ":" + std::to_string(*port->AsInt()));
      }
    }
    return ready;
  }

  Status Tell() {
    std::set<std::string> all;
    for (const auto& [name, ready] : slices_) {
      all.insert(ready.begin(), ready.end());
    }
    std::vector<driver::ReplicaSpec> replicas;
    for (const std::string& host_and_port : all) {
      driver::ReplicaSpec& replica = replicas.emplace_back(spec_.like);
      replica.url = (spec_.tls ? "https://" : "http://") + host_and_port;
    }
    return internal::TakeFound(membership_, spec_.source, std::move(replicas));
  }

  const DiscoverySpec spec_;
  Membership& membership_;
  // Thread of thread_.
  std::map<std::string, std::set<std::string>> slices_;
  std::string version_;  // up to which all is known; empty: nothing is
  bool listed_ = false;  // since what was known was no more kept
  DiscoveryThread thread_;
};

}  // namespace

std::unique_ptr<Discovery> internal::StartKubernetes(DiscoverySpec spec, Membership& membership) {
  return std::make_unique<KubernetesDiscovery>(std::move(spec), membership);
}

}  // namespace fak::fleet

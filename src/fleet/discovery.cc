#include "fleet/discovery.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "fleet/fleet_file.h"
#include "net/dns_lookup.h"
#include "net/url.h"

namespace fak::fleet {
namespace {

Result<uint16_t> ReadPort(const ConfigTable& table) {
  TRY_ASSIGN(const std::optional<int64_t> port, table.Int("port"));
  if (!port) {
    return Fail(table.ErrorAt("port", "is missing"));
  }
  if (*port < 1 || *port > std::numeric_limits<uint16_t>::max()) {
    return Fail(table.ErrorAt("port", "must be from 1 to 65535"));
  }
  return static_cast<uint16_t>(*port);
}

Status ReadDns(const ConfigTable& table, DiscoverySpec& spec) {
  TRY_ASSIGN(const auto addresses, table.String("dns"));
  TRY_ASSIGN(const auto services, table.String("dns-services"));
  const std::string_view key = services ? "dns-services" : "dns";
  if (!addresses && !services) {
    return Fail(table.ErrorAt("dns", "is missing, and so are dns-services, etcd and kubernetes"));
  }
  if (addresses && services) {
    return Fail(table.ErrorAt("dns-services", "and dns don't go together"));
  }
  spec.name = services ? *services : *addresses;
  if (spec.name.empty()) {
    return Fail(table.ErrorAt(key, "is empty"));
  }
  spec.kind = services ? DiscoverySpec::Kind::kDnsServices : DiscoverySpec::Kind::kDnsAddresses;
  spec.source = std::string(key) + " " + spec.name;
  if (services) {
    TRY_ASSIGN(const auto port, table.Int("port"));
    if (port) {
      return Fail(table.ErrorAt("port", "is what SRV records say themselves"));
    }
  } else {
    TRY_ASSIGN(spec.port, ReadPort(table));
    spec.source += ":" + std::to_string(spec.port);
  }
  TRY_ASSIGN(auto server, table.String("dns-server"));
  spec.server = std::move(server).value_or("");
  if (const Status known = net::CheckDnsServer(spec.server); !known) {
    return Fail(table.ErrorAt("dns-server", known.error().detail));
  }
  return {};
}

Result<DiscoverySpec> ReadEtcd(const ConfigTable& table, std::string url) {
  TRY(table.RefuseUnknownKeys({"etcd", "prefix", "ca-file"}));
  DiscoverySpec spec;
  spec.kind = DiscoverySpec::Kind::kEtcd;
  if (const auto parsed = net::ParseUrl(url); !parsed) {
    return Fail(table.ErrorAt("etcd", parsed.error().detail));
  }
  TRY_ASSIGN(auto prefix, table.String("prefix"));
  spec.prefix = std::move(prefix).value_or("/fak/replicas/");
  if (spec.prefix.empty()) {
    return Fail(table.ErrorAt("prefix", "is empty"));
  }
  TRY_ASSIGN(auto ca_file, table.String("ca-file"));
  spec.ca_file = std::move(ca_file).value_or("");
  spec.source = "etcd " + url + " " + spec.prefix;
  spec.name = std::move(url);
  return spec;
}

// What all that is found there has in common.
Status ReadLike(const ConfigTable& table, FunctionRef<Status(driver::ReplicaSpec&)> complete,
                DiscoverySpec& spec) {
  TRY_ASSIGN(const std::optional<bool> tls, table.Bool("tls"));
  spec.tls = tls.value_or(false);
  TRY_ASSIGN(spec.like, ReadReplicaLike(table));
  if (spec.like.engine == driver::kNativeEngine) {
    return Fail(table.ErrorAt("engine", "a model that is served here isn't found elsewhere"));
  }
  driver::ReplicaSpec example = spec.like;
  example.url = "http://example";
  if (Status completed = complete(example); !completed) {
    return Fail(AtReplicaKey(table, std::move(completed).error()));
  }
  return {};
}

// Where a pod finds the API of its cluster; empty: this is none.
std::string OwnClustersApi() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) {
    return "";
  }
  const bool bare = std::string_view(host).find(':') != std::string_view::npos;  // IPv6
  return std::string("https://") + (bare ? "[" : "") + host + (bare ? "]:" : ":") + port;
}

// Names as Kubernetes takes them: they become a part of a path.
bool IsKubernetesName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

Result<DiscoverySpec> ReadKubernetes(const ConfigTable& table, std::string service,
                                     FunctionRef<Status(driver::ReplicaSpec&)> complete) {
  TRY(table.RefuseUnknownKeys({"kubernetes", "kubernetes-api", "token-file", "ca-file", "port-name",
                               "tls", "engine", "model", "weight", "max-concurrency",
                               "api-key-file", "allow-fields", "allow-headers",
                               "generation-probe-interval", "generation-probe-timeout"}));
  DiscoverySpec spec;
  spec.kind = DiscoverySpec::Kind::kKubernetes;
  const auto cut = Cut(service, "/");
  if (!cut || !IsKubernetesName(cut->first) || !IsKubernetesName(cut->second)) {
    return Fail(table.ErrorAt("kubernetes", "must be NAMESPACE/SERVICE"));
  }
  const auto read = [&table](std::string_view key, std::string& text) -> Status {
    TRY_ASSIGN(auto given, table.String(key));
    text = std::move(given).value_or(std::move(text));
    return {};
  };
  TRY(read("kubernetes-api", spec.server));
  if (spec.server.empty()) {
    const std::string kAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";
    spec.server = OwnClustersApi();
    spec.token_file = kAccount + "token";
    spec.ca_file = kAccount + "ca.crt";
    if (spec.server.empty()) {
      return Fail(table.ErrorAt("kubernetes-api", "is missing, and this is no pod"));
    }
  }
  if (const auto parsed = net::ParseUrl(spec.server); !parsed) {
    return Fail(table.ErrorAt("kubernetes-api", parsed.error().detail));
  }
  TRY(read("token-file", spec.token_file));
  TRY(read("ca-file", spec.ca_file));
  TRY(read("port-name", spec.port_name));
  spec.source = "kubernetes " + service;
  spec.name = std::move(service);
  TRY(ReadLike(table, complete, spec));
  return spec;
}

Result<DiscoverySpec> ReadDiscovery(const ConfigTable& table,
                                    FunctionRef<Status(driver::ReplicaSpec&)> complete) {
  TRY_ASSIGN(auto etcd, table.String("etcd"));
  if (etcd) {
    return ReadEtcd(table, *std::move(etcd));
  }
  TRY_ASSIGN(auto kubernetes, table.String("kubernetes"));
  if (kubernetes) {
    return ReadKubernetes(table, *std::move(kubernetes), complete);
  }
  TRY(table.RefuseUnknownKeys({"dns", "dns-services", "dns-server", "port", "tls", "engine",
                               "model", "weight", "max-concurrency", "api-key-file", "allow-fields",
                               "allow-headers", "generation-probe-interval",
                               "generation-probe-timeout"}));
  DiscoverySpec spec;
  TRY(ReadDns(table, spec));
  TRY(ReadLike(table, complete, spec));
  return spec;
}

std::unique_ptr<Discovery> Start(const DiscoverySpec& spec, Membership& membership) {
  switch (spec.kind) {
    case DiscoverySpec::Kind::kEtcd: return internal::StartEtcd(spec, membership);
    case DiscoverySpec::Kind::kKubernetes: return internal::StartKubernetes(spec, membership);
    case DiscoverySpec::Kind::kDnsAddresses:
    case DiscoverySpec::Kind::kDnsServices: break;
  }
  return internal::StartDns(spec, membership);
}

}  // namespace

bool DiscoverySpec::operator==(const DiscoverySpec& other) const {
  return kind == other.kind && source == other.source && name == other.name &&
         server == other.server && prefix == other.prefix && token_file == other.token_file &&
         port_name == other.port_name && ca_file == other.ca_file && port == other.port &&
         tls == other.tls && IsSameEngine(like, other.like) && like.weight == other.like.weight &&
         like.max_concurrency == other.like.max_concurrency;
}

Result<std::vector<DiscoverySpec>> ReadDiscoveries(
    const ConfigTable& file, FunctionRef<Status(driver::ReplicaSpec&)> complete) {
  TRY_ASSIGN(const std::vector<ConfigTable> tables, file.Tables(kDiscoverKey));
  if (tables.size() > kDiscoveriesMax) {
    return Fail(tables[kDiscoveriesMax].ErrorAt(
        "", "at most " + std::to_string(kDiscoveriesMax) + " of them"));
  }
  std::vector<DiscoverySpec> specs;
  for (const ConfigTable& table : tables) {
    TRY_ASSIGN(DiscoverySpec spec, ReadDiscovery(table, complete));
    const bool twice = std::any_of(specs.begin(), specs.end(), [&spec](const auto& other) {
      return other.source == spec.source;
    });
    if (twice) {
      const std::string key = spec.source.substr(0, spec.source.find(' '));
      return Fail(table.ErrorAt(key, "there is another " + spec.source + " already"));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

Status internal::TakeFound(Membership& membership, std::string_view source,
                           std::vector<driver::ReplicaSpec> replicas) {
  std::vector<driver::ReplicaSpec> others;
  for (driver::ReplicaSpec& replica : replicas) {
    const Status complete = membership.Complete(replica);
    if (!complete && complete.error().code == Code::kAlreadyExists) {
      Log(LogLevel::kDebug, "{}: passed over: {}", source, complete.error().detail);
      continue;
    }
    TRY(complete);
    others.push_back(std::move(replica));
  }
  TRY(membership.Set(source, std::move(others)));
  return {};
}

void Discoveries::Set(std::vector<DiscoverySpec> specs) {
  const auto among = [](const auto& list, const DiscoverySpec& spec, const auto& of) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& each) { return of(each) == spec; });
  };
  std::vector<std::string> ended;
  std::erase_if(running_, [&](const auto& each) {
    const bool stays = among(specs, each.first, [](const DiscoverySpec& spec) { return spec; });
    if (!stays) {
      ended.push_back(each.first.source);
    }
    return !stays;
  });
  for (DiscoverySpec& spec : specs) {
    if (!among(running_, spec, [](const auto& each) { return each.first; })) {
      // One that begins anew keeps its replicas until it knows better.
      std::erase(ended, spec.source);
      auto started = Start(spec, membership_);
      running_.emplace_back(std::move(spec), std::move(started));
    }
  }
  for (const std::string& source : ended) {
    membership_.Forget(source);
  }
}

}  // namespace fak::fleet

#include "fleet/discovery.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "fleet/fleet_file.h"
#include "net/dns_lookup.h"

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
    return Fail(table.ErrorAt("dns", "is missing, and so is dns-services"));
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

Result<DiscoverySpec> ReadDiscovery(const ConfigTable& table,
                                    FunctionRef<Status(driver::ReplicaSpec&)> complete) {
  TRY(table.RefuseUnknownKeys({"dns", "dns-services", "dns-server", "port", "tls", "engine",
                               "model", "weight", "max-concurrency", "api-key-file", "allow-fields",
                               "allow-headers"}));
  DiscoverySpec spec;
  TRY(ReadDns(table, spec));
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
  return spec;
}

}  // namespace

bool DiscoverySpec::operator==(const DiscoverySpec& other) const {
  return kind == other.kind && source == other.source && name == other.name &&
         server == other.server && port == other.port && tls == other.tls &&
         IsSameEngine(like, other.like) && like.weight == other.like.weight &&
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
      auto started = internal::StartDns(spec, membership_);
      running_.emplace_back(std::move(spec), std::move(started));
    }
  }
  for (const std::string& source : ended) {
    membership_.Forget(source);
  }
}

}  // namespace fak::fleet

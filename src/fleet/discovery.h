#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "driver/engine_driver.h"
#include "fleet/membership.h"

namespace fak::fleet {

inline constexpr std::string_view kDiscoverKey = "discover";
inline constexpr size_t kDiscoveriesMax = 16;

// Where replicas are found, and what those are like.
struct DiscoverySpec {
  enum class Kind : uint8_t { kDnsAddresses, kDnsServices, kEtcd, kKubernetes };
  Kind kind = Kind::kDnsAddresses;
  std::string source = {};      // "dns vllm.example": for people, and no other's
  std::string name = {};        // that is looked up; kEtcd: its URL; kKubernetes: NAMESPACE/SERVICE
  std::string prefix = {};      // kEtcd: of the keys
  std::string token_file = {};  // kKubernetes: its first line; empty: none
  std::string port_name = {};   // kKubernetes: of the service's; empty: the first
  std::string ca_file = {};     // to trust there instead of the system's
  std::string server = {};      // of DNS, instead of the system's; kKubernetes: the API's URL
  uint16_t port = 0;            // of replicas, where what is found doesn't say it
  bool tls = false;             // replicas are https
  driver::ReplicaSpec like = {};  // but for name and URL

  bool operator==(const DiscoverySpec& other) const;
};

// The [[discover]] tables of a fleet file, in its order.
//   [[discover]]
//   dns = "vllm.example"             # its A and AAAA records: a replica each, at this port
//   port = 8000
//   [[discover]]
//   dns-services = "_http._tcp.vllm" # its SRV records of the lowest priority: a replica each
// and in both
//   dns-server = "10.0.0.2:53"       # default: the system's
//   tls = true                       # replicas are https; default: false
//   [[discover]]
//   etcd = "http://10.0.0.9:2379"    # a replica a key, as of replica_json.h, named by the rest of
//   it prefix = "/fak/replicas/"        # this is the default ca-file = "/etc/fak/etcd.pem"
//   [[discover]]
//   kubernetes = "default/vllm"      # a replica each endpoint of this service that is ready
//   kubernetes-api = "https://..."   # default, with the next two: those of the pod that fak runs
//   in token-file = "..." ca-file = "..." port-name = "http"               # default: the first tls
//   = true
// and for all replicas that DNS and Kubernetes find: engine, model, weight, max-concurrency,
// api-key-file, allow-fields, allow-headers, generation-probe-..., as of a [[replica]]. `complete`
// as of ReadReplicas(), and so are errors. kInvalidArgument also: two of the same.
[[nodiscard]] Result<std::vector<DiscoverySpec>> ReadDiscoveries(
    const ConfigTable& file, FunctionRef<Status(driver::ReplicaSpec&)> complete);

// Asks where replicas are found for as long as it lives, on a thread of its own, and tells the
// membership. Where nobody answers, or the answer has nobody, the last known set stays.
class Discovery {
 public:
  virtual ~Discovery() = default;
};

// Those of a fleet file. One thread at a time.
class Discoveries {
 public:
  explicit Discoveries(Membership& membership) : membership_(membership) {}

  // Ends those that aren't among these, whose replicas leave, and starts those that are new.
  void Set(std::vector<DiscoverySpec> specs);

 private:
  Membership& membership_;
  std::vector<std::pair<DiscoverySpec, std::unique_ptr<Discovery>>> running_;
};

namespace internal {
// All that a source has found, given to `membership`. One that is this server itself is passed
// over: it may well answer under the name that its fellows have.
[[nodiscard]] Status TakeFound(Membership& membership, std::string_view source,
                               std::vector<driver::ReplicaSpec> replicas);
// discovery_dns.cc
std::unique_ptr<Discovery> StartDns(DiscoverySpec spec, Membership& membership);
// discovery_etcd.cc
std::unique_ptr<Discovery> StartEtcd(DiscoverySpec spec, Membership& membership);
// discovery_kubernetes.cc
std::unique_ptr<Discovery> StartKubernetes(DiscoverySpec spec, Membership& membership);
}  // namespace internal

}  // namespace fak::fleet

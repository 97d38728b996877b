#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "fleet/discovery.h"
#include "net/dns_lookup.h"

// Replicas that DNS names.
namespace fak::fleet {
namespace {

constexpr uint32_t kAgainS = 5;     // after a failure
constexpr uint32_t kTtlLeastS = 1;  // so that a time to live of 0 is no storm
constexpr uint32_t kTtlMostS = 3600;

std::string WithPort(const std::string& host, uint16_t port) {
  const bool bare = host.find(':') != std::string::npos;  // IPv6
  return (bare ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// Its name is that of its URL.
driver::ReplicaSpec At(const DiscoverySpec& spec, const std::string& host_and_port) {
  driver::ReplicaSpec replica = spec.like;
  replica.url = (spec.tls ? "https://" : "http://") + host_and_port;
  return replica;
}

struct Found {
  std::vector<driver::ReplicaSpec> replicas;
  uint32_t ttl_s = 0;
};

Result<Found> LookUp(const DiscoverySpec& spec) {
  Found found;
  if (spec.kind == DiscoverySpec::Kind::kDnsAddresses) {
    TRY_ASSIGN(const net::DnsAddresses answer, net::LookUpAddresses(spec.name, spec.server));
    for (const std::string& address : answer.addresses) {
      found.replicas.push_back(At(spec, WithPort(address, spec.port)));
    }
    found.ttl_s = answer.ttl_s;
    return found;
  }
  TRY_ASSIGN(const net::DnsServices answer, net::LookUpServices(spec.name, spec.server));
  uint16_t first = answer.services.front().priority;
  for (const net::DnsService& service : answer.services) {
    first = std::min(first, service.priority);
  }
  for (const net::DnsService& service : answer.services) {
    if (service.priority == first) {
      driver::ReplicaSpec replica = At(spec, WithPort(service.host, service.port));
      replica.weight *= service.weight;
      found.replicas.push_back(std::move(replica));
    }
  }
  found.ttl_s = answer.ttl_s;
  return found;
}

class DnsDiscovery final : public Discovery {
 public:
  DnsDiscovery(DiscoverySpec spec, Membership& membership)
      : spec_(std::move(spec)), membership_(membership), thread_([this] { Run(); }) {}
  ~DnsDiscovery() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      const uint32_t again_s = Ask();
      lock.lock();
      wake_.wait_for(lock, std::chrono::seconds(again_s), [this] { return stopping_; });
    }
  }
  // After how long it should be asked again.
  uint32_t Ask() {
    Result<Found> found = LookUp(spec_);
    if (!found) {
      membership_.NoteFailure(spec_.source, found.error());
      return kAgainS;
    }
    const Status taken = internal::TakeFound(membership_, spec_.source, std::move(found->replicas));
    if (!taken) {
      membership_.NoteFailure(spec_.source, taken.error());
      return kAgainS;
    }
    return std::clamp(found->ttl_s, kTtlLeastS, kTtlMostS);
  }

  const DiscoverySpec spec_;
  Membership& membership_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Discovery> internal::StartDns(DiscoverySpec spec, Membership& membership) {
  return std::make_unique<DnsDiscovery>(std::move(spec), membership);
}

}  // namespace fak::fleet

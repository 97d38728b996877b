#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "fleet/discovery.h"
#include "fleet/discovery_client.h"

namespace fak::fleet {

// The thread of one that asks a service where replicas are, round by round, until it is destroyed.
class DiscoveryThread {
 public:
  // A round reads all and follows what changes. Ok: the next one is at once. An error is what
  // `membership` has of the source then, and the next one comes a second later, and twice as long
  // each time that it fails again, up to ten.
  using Round = std::function<Status(DiscoveryClient&)>;
  // `membership` must outlive it, and so must what `round` touches.
  DiscoveryThread(const DiscoverySpec& spec, Membership& membership, Round round);
  ~DiscoveryThread();

 private:
  void Run(const std::string& source, Membership& membership, const Round& round);

  std::unique_ptr<DiscoveryClient> client_;  // null: it couldn't be made, which was told
  std::thread thread_;
};

}  // namespace fak::fleet

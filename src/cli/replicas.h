#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "cli/upstreams.h"
#include "driver/engine_driver.h"
#include "fleet/discovery.h"
#include "fleet/fleet_driver.h"
#include "fleet/membership.h"

// What `fak serve` serves: where it is named, and how it changes while it runs.
namespace fak::cli {

// Whether a replica of the fleet file, or one that an operator adds, can be one.
[[nodiscard]] Status CompleteReplica(driver::ReplicaSpec& spec);

struct NamedReplicas {
  std::vector<driver::ReplicaSpec> specs;         // none only where they are to be found
  std::vector<fleet::DiscoverySpec> discoveries;  // where; of a file alone
  bool from_file = false;                         // the replicas are
};

// The upstreams or the model that flags name, else the fleet file's replicas, else the default
// model. A model that wasn't typed gives way to replicas, as it does to upstreams.
[[nodiscard]] Result<NamedReplicas> NameReplicas(const UpstreamFlags& flags,
                                                 const std::string& model, bool model_was_typed,
                                                 const std::optional<ConfigTable>& maybe_file);

// The models of the file, for a fleet that has these replicas from `source`. Errors say where it is
// wrong: also where it is sure that nobody has a model that it names.
[[nodiscard]] Status SetModels(const ConfigTable& file, const NamedReplicas& named,
                               const std::string& source, fleet::Membership& membership,
                               fleet::FleetDriver& fleet);

// Reads the fleet file once more, and does to the fleet what has changed. Where it can't be read,
// is wrong anywhere, or names a native replica, or none and no place to find some, nothing changes,
// and the membership notes why.
void RereadFleetFile(const std::string& path, const UpstreamFlags& flags,
                     const net::OwnAddress& own, fleet::FleetDriver& fleet,
                     fleet::Membership& membership, fleet::Discoveries& discoveries);

// Calls when a file's bytes have changed, or when somebody asks for it. It looks once a second; a
// file that changes is left alone until it has been the same for that long, so that nobody reads
// half of one. Signals may ask before Start().
class FileWatcher {
 public:
  explicit FileWatcher(std::string path) : path_(std::move(path)) {}
  ~FileWatcher() { Stop(); }

  // From now on: on a thread of its own, one call at a time. What the file has at this moment is
  // known.
  void Start(std::function<void()> on_change);
  void Stop();
  // Calls once, whether anything has changed or not. Any thread.
  void Ask();

 private:
  // Nullopt: it can't be read, or is no regular file.
  std::optional<std::string> Read() const;
  void Run(const std::function<void()>& on_change);

  const std::string path_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  bool asked_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fak::cli

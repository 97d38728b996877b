#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/driver_maker.h"
#include "driver/engine_driver.h"
#include "fleet/fleet_driver.h"
#include "net/own_address.h"
#include "ride/spec_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace fak::cli {

// The flags that say what a gateway stands in front of.
struct UpstreamFlags {
  std::vector<std::string> upstreams;  // [NAME=][ENGINE+]URL
  std::string model;
  std::string api_key;
  std::vector<std::string> api_key_files;  // [NAME=]FILE
  std::string ca_file;
  std::vector<std::string> allowed_fields;
  std::vector<std::string> allowed_headers;
  std::vector<std::string> metrics_urls;  // [NAME=]URL
  std::vector<std::string> kv_events;  // [NAME=]ENDPOINT[,replay=ENDPOINT][,topic=PREFIX][,rank=N]
  std::vector<std::string> data_parallel_ranks;  // [NAME=]N
  std::string state_file;                        // where lasting changes are kept; empty: nowhere
  int metrics_scrape_interval_s = 5;             // 0: never
  int generation_probe_interval_s = ride::kGenerationProbeIntervalS;  // 0: never
  int generation_probe_timeout_s = ride::kGenerationProbeTimeoutS;
  bool resume_streams = false;
  std::string routing_policy = std::string(fleet::kDefaultRoutingPolicy);
};

void AddUpstreamFlags(CLI::App& verb, UpstreamFlags& flags);

// Whether each --upstream is one, as far as its text says.
[[nodiscard]] Status CheckUpstreams(const UpstreamFlags& flags);

// An error where one of them is this server itself, by the addresses that its host stands for;
// waits for the names among them, 2 s for all. kInvalidArgument of a flag, else kAlreadyExists.
[[nodiscard]] Status RefuseOwnAddress(const std::vector<driver::ReplicaSpec>& specs,
                                      const net::OwnAddress& own,
                                      const std::string& field = "--upstream");

// What the flags say of every upstream, for one that comes while the server runs.
void ApplyFlagsOfAll(const UpstreamFlags& flags, driver::ReplicaSpec& spec);

// A spec for each --upstream. One value may have several with commas between, as the environment's
// does. kInvalidArgument: two of one name, too many.
[[nodiscard]] Result<std::vector<driver::ReplicaSpec>> UpstreamSpecs(const UpstreamFlags& flags);

// Gives each what the other flags say of it. kInvalidArgument: what is for nobody, one key or model
// for several, a second where there is one already.
[[nodiscard]] Status ApplyUpstreamFlags(const UpstreamFlags& flags,
                                        std::vector<driver::ReplicaSpec>& specs);

struct StartedUpstreams {
  std::unique_ptr<fleet::FleetDriver> driver;
  std::string urls;  // of all, for a person
  size_t count = 0;
  size_t answering = 0;
  int probe_every_ms = 0;  // how soon those that don't answer are asked again
  // A model that a chat can be had from now, as a client names it; empty: a chat that names none.
  // Nullopt: no chat is sure to be answered.
  std::optional<std::string> maybe_chat_model;
  // Membership's, for those that come later.
  std::function<std::vector<std::string>(const driver::ReplicaSpec&)> models_of;
};

// All of them, made by `maker` and started, as one driver. Says on stderr what was
// found behind each, and waits a few seconds for that. served_names: what clients shall call the
// models; kInvalidArgument for one that can't mean any, and for a policy that there isn't.
[[nodiscard]] Result<StartedUpstreams> StartUpstreams(const std::vector<driver::ReplicaSpec>& specs,
                                                      const std::vector<std::string>& served_names,
                                                      const UpstreamFlags& flags,
                                                      DriverMaker& maker);

}  // namespace fak::cli

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "driver/driver_factory.h"
#include "metrics/serving.h"
#include "net/event_loop.h"
#include "ride/upstream_driver.h"

namespace fak::cli {

struct DriverMakerOptions {
  EngineFlags engine;                     // of a native driver, but for its model
  std::vector<std::string> served_names;  // of a native one; empty: the model's own
  std::string ca_file;                    // of ridden ones
  int scrape_interval_s = 0;
  int generation_probe_interval_s = 0;  // the same, of those that are probed unasked
  int generation_probe_timeout_s = ride::kGenerationProbeTimeoutS;
};

// The program's factory: where the two kinds of driver are made, and nowhere else.
class DriverMaker final : public driver::DriverFactory {
 public:
  // The references outlive the maker and what it makes. request_loop: that the server answers on.
  // cancel: ends the pull of a model.
  DriverMaker(DriverMakerOptions options, metrics::Registry& metrics, net::EventLoop& request_loop,
              const std::atomic<bool>& cancel);

  // Says on stderr what card and memory of a native one were found to need.
  Result<std::unique_ptr<driver::EngineDriver>> Make(const driver::ReplicaSpec& spec) override;

  // The ridden driver that was made last; null: none was. Valid as long as that is.
  ride::UpstreamDriver* maybe_last_upstream() const { return maybe_last_upstream_; }
  // Ridden drivers that are made from now on stand for these (UpstreamDriver::StandFor), but those
  // that are asked for a model of their own.
  void SetOwnNames(std::vector<std::string> names, std::string model);
  // What the native driver counts in; null: none was made.
  std::shared_ptr<metrics::Emitter> maybe_native_emitter() const { return maybe_native_emitter_; }

 private:
  Result<std::unique_ptr<driver::EngineDriver>> MakeNative(const driver::ReplicaSpec& spec);
  Result<std::unique_ptr<driver::EngineDriver>> MakeRidden(const driver::ReplicaSpec& spec);

  const DriverMakerOptions options_;
  metrics::Registry& metrics_;
  net::EventLoop& request_loop_;
  const std::atomic<bool>& cancel_;
  ride::UpstreamDriver* maybe_last_upstream_ = nullptr;
  std::vector<std::string> own_names_;
  std::string own_names_model_;
  std::shared_ptr<metrics::Emitter> maybe_native_emitter_;
};

}  // namespace fak::cli

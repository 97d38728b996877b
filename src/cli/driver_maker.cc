#include "cli/driver_maker.h"

#include <utility>

#include "engine/native_driver.h"

namespace fak::cli {

DriverMaker::DriverMaker(DriverMakerOptions options, metrics::Registry& metrics,
                         net::EventLoop& request_loop, const std::atomic<bool>& cancel)
    : options_(std::move(options)),
      metrics_(metrics),
      request_loop_(request_loop),
      cancel_(cancel) {}

void DriverMaker::SetOwnNames(std::vector<std::string> names, std::string model) {
  own_names_ = std::move(names);
  own_names_model_ = std::move(model);
}

Result<std::unique_ptr<driver::EngineDriver>> DriverMaker::Make(const driver::ReplicaSpec& spec) {
  return spec.engine == driver::kNativeEngine ? MakeNative(spec) : MakeRidden(spec);
}

Result<std::unique_ptr<driver::EngineDriver>> DriverMaker::MakeNative(
    const driver::ReplicaSpec& spec) {
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(spec.model, &cancel_));
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(options_.engine, model));
  std::vector<std::string> names =
      options_.served_names.empty() ? std::vector{model.name} : options_.served_names;
  maybe_native_emitter_ =
      metrics_.MakeEmitter({.worker = spec.name, .engine = "fak", .model = names.front()});
  return std::make_unique<engine::NativeDriver>(
      std::move(loaded), engine::NativeDriverOptions{.served_names = std::move(names)},
      Clock::Real(), RandomSource::Real(), maybe_native_emitter_);
}

Result<std::unique_ptr<driver::EngineDriver>> DriverMaker::MakeRidden(
    const driver::ReplicaSpec& spec) {
  constexpr int kMsPerSecond = 1000;
  TRY_ASSIGN(
      std::unique_ptr<ride::UpstreamDriver> made,
      ride::UpstreamDriver::Make(
          spec, {.timeouts = {},
                 .tls = {.ca_file = options_.ca_file},
                 .maybe_metrics = &metrics_,
                 .scrape_every_ms = options_.scrape_interval_s * kMsPerSecond,
                 .generation_probe_every_ms = options_.generation_probe_interval_s * kMsPerSecond,
                 .generation_probe_timeout_ms = options_.generation_probe_timeout_s * kMsPerSecond,
                 .maybe_request_loop = &request_loop_}));
  maybe_last_upstream_ = made.get();
  if (spec.model.empty() && !own_names_.empty()) {
    made->StandFor(own_names_, own_names_model_);
  }
  return made;
}

}  // namespace fak::cli

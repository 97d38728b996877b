#pragma once

#include <memory>

#include "base/result.h"
#include "driver/engine_driver.h"

namespace fak::driver {

// Makes the driver of a replica, whatever its kind: who calls it, the fleet above all, sees neither
// engine nor ride. The program binds it to both (cli/driver_maker.h).
class DriverFactory {
 public:
  virtual ~DriverFactory() = default;

  // Not started. Takes as long as loading a model where that is what the replica is. Errors:
  // kInvalidArgument for a spec that can't be, with the member as its field; why a model can't be
  // had or loaded; kCancelled. One call at a time; blocks, so not on a loop.
  [[nodiscard]] virtual Result<std::unique_ptr<EngineDriver>> Make(const ReplicaSpec& spec) = 0;
};

}  // namespace fak::driver

#pragma once

#include <string>

#include "base/result.h"
#include "driver/engine_driver.h"

namespace fak::ride {

// "[NAME=][ENGINE+]URL", as on the command line. Without a name it is the URL's host and port,
// without an engine "auto". kInvalidArgument says what it can't be.
[[nodiscard]] Result<driver::ReplicaSpec> ParseUpstream(const std::string& text);

}  // namespace fak::ride

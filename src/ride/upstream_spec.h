#pragma once

#include <string>

#include "base/result.h"
#include "driver/engine_driver.h"

namespace fak::ride {

// "[NAME=][ENGINE+]URL", as on the command line, completed. kInvalidArgument says what it can't be.
[[nodiscard]] Result<driver::ReplicaSpec> ParseUpstream(const std::string& text);

// Whether name, engine and URL are such. Without a name it becomes the URL's host and port.
// kInvalidArgument, with the member as its field; the error quotes `text`, how they were given.
[[nodiscard]] Status CompleteSpec(driver::ReplicaSpec& spec, const std::string& text);

}  // namespace fak::ride

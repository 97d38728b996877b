#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "driver/engine_driver.h"

namespace fak::fleet {

// Names that are kept out, and as many that are kept drained.
inline constexpr size_t kFleetStateNamesMax = 1024;

// What operators have changed and asked to be kept for the next start. Plain value.
struct FleetState {
  std::vector<driver::ReplicaSpec> added;           // as they were given, with their names
  std::set<std::string, std::less<>> removed = {};  // whatever sources say
  std::set<std::string, std::less<>> drained = {};
};

// Of its file, a TOML file of this server's own: [[replica]] as in a fleet file, with the key
// itself as api-key; removed and drained, each a list of names. Not there: nothing is kept, and an
// empty one is written, so that one that can't be is refused before it is needed. `complete` as of
// ReadReplicas(), and so are errors: all name the file, line and column.
[[nodiscard]] Result<FleetState> OpenFleetState(const std::string& path,
                                                FunctionRef<Status(driver::ReplicaSpec&)> complete);
// In one step, for this user alone: it may hold keys. kInvalidArgument: more than may be kept.
[[nodiscard]] Status WriteFleetState(const std::string& path, const FleetState& state);

}  // namespace fak::fleet

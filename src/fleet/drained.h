#pragma once

#include <string>

#include "base/result.h"
#include "fleet/roster.h"
#include "wire/turn.h"

namespace fak::fleet {

// What a request asks for, as far as not every replica has it.
struct Asked {
  const std::string& model;  // as clients name it
  wire::Surface surface;
};

// Whether that replica could take the request, were it well and not drained.
bool Serves(const Replicas& replicas, const FleetReplica& replica, const Asked& asked);

// "a is drained (fak fleet undrain a)", of all that could take the request but for that; empty:
// nobody is drained.
std::string DrainedInWords(const Replicas& replicas, const Asked& asked);

// An error that another replica might have cured, with those behind it that were not asked.
Error WithDrained(Error error, const Replicas& replicas, const Asked& asked);

// "a, b": for who asked for one that isn't there.
std::string NamesInWords(const Replicas& replicas);

}  // namespace fak::fleet

#include "fleet/drained.h"

#include <utility>
#include <vector>

#include "base/strings.h"

namespace fak::fleet {

bool Serves(const Replicas& replicas, const FleetReplica& replica, const Asked& asked) {
  // One that is alone is asked for anything, and says itself what it doesn't have.
  return replicas.list.size() == 1 ||
         (replica.ListsModel(asked.model) && replica.ServesSurface(asked.surface));
}

std::string DrainedInWords(const Replicas& replicas, const Asked& asked) {
  std::vector<std::string> drained;
  for (const auto& replica : replicas.list) {
    if (replica->draining() && Serves(replicas, *replica, asked)) {
      drained.push_back(replica->name() + " is drained (fak fleet undrain " + replica->name() +
                        ")");
    }
  }
  return Join(drained, "; ");
}

Error WithDrained(Error error, const Replicas& replicas, const Asked& asked) {
  if (const std::string drained = DrainedInWords(replicas, asked); !drained.empty()) {
    error.detail += "; " + drained;
  }
  return error;
}

std::string NamesInWords(const Replicas& replicas) {
  std::vector<std::string> names;
  for (const auto& replica : replicas.list) {
    names.push_back(replica->name());
  }
  return names.empty() ? "none" : Join(names, ", ");
}

}  // namespace fak::fleet

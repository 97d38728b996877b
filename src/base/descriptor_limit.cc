#include "base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace fak {

uint64_t RaiseDescriptorLimit(uint64_t wanted) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return 0;
  }
  if (files.rlim_cur < wanted) {
    const rlimit raised = {std::min<rlim_t>(wanted, files.rlim_max), files.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
      files = raised;
    }
  }
  return files.rlim_cur;
}

int DescriptorsForClients(uint64_t limit) {
  constexpr int kNoBound = std::numeric_limits<int>::max();
  if (limit == 0 || limit > static_cast<uint64_t>(kNoBound)) {
    return kNoBound;
  }
  const int all = static_cast<int>(limit);
  const int kept = std::clamp(all / 4, limits::kDescriptorsKeptMin, limits::kDescriptorsKeptMax);
  return all - std::min(kept, all / 2);
}

}  // namespace fak

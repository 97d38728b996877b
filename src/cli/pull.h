#pragma once

#include <atomic>
#include <string>

#include "hub/store.h"

namespace fak::cli {

// A model found, or pulled with progress on stderr where a person looks. An empty reference is the
// default model. maybe_cancel: set, it ends the pull with kCancelled. check: what is here already
// is compared with its checksum, and not only with its size.
[[nodiscard]] Result<hub::Entry> FindOrPull(const std::string& reference,
                                            const std::atomic<bool>* maybe_cancel, bool check);

}  // namespace fak::cli

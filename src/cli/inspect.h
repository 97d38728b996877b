#pragma once

#include <string>

#include "base/result.h"

namespace fak::cli {

// Why a model file can't be run here with the default flags, as `fak inspect` says it. One pass
// over the file.
[[nodiscard]] Status CheckRunnable(const std::string& path);

}  // namespace fak::cli

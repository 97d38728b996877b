#pragma once

#include <string>

#include "base/result.h"

namespace fak::hub {

// With all parents; fine when it is there.
[[nodiscard]] Status MakeFolders(const std::string& path);
// A file, or a folder with everything in it; fine when it is not there.
[[nodiscard]] Status RemoveTree(const std::string& path);
// Bytes that may still be written where the path is.
uint64_t FreeBytes(const std::string& path);

}  // namespace fak::hub

#pragma once

#include <string>

#include "base/result.h"

// Files in the system's page cache: a load from there and one from the disk are two things.
namespace fak::perf {

// Writes what is dirty, then asks the system to forget the file's pages; it keeps those that others
// have mapped, and all on file systems in memory. kUnsupported where there is no such call; else
// the errors of a file.
[[nodiscard]] Status DropFromCache(const std::string& path);

// The share of the file's pages that are in memory, 0 to 1; of an empty file 1. Linux tells 1 of
// files that this user may not write. Errors as above.
[[nodiscard]] Result<double> CachedShare(const std::string& path);

}  // namespace fak::perf

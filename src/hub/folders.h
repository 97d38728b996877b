#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace fak::hub {

// With all parents; fine when it is there.
[[nodiscard]] Status MakeFolders(const std::string& path);
// A file, or a folder with everything in it; fine when it is not there.
[[nodiscard]] Status RemoveTree(const std::string& path);
// Bytes that may still be written where the path is.
uint64_t FreeBytes(const std::string& path);
struct FolderSize {
  uint64_t bytes = 0;  // of all files
  uint64_t largest_file = 0;
};
// Of a folder and the folders in it, to a depth of three. Files may come and go meanwhile.
FolderSize SizeOfFolder(const std::string& folder);

// When somebody last wrote to a file, since 1970.
int64_t WrittenNs(const struct stat& status);

// Why a write to `path` failed. For a full disk, a quota or a bound on files: kResourceExhausted
// with the bytes that are needed still (0: not known) and those that are free.
Error WriteError(int error_number, const std::string& path, uint64_t needed);

}  // namespace fak::hub

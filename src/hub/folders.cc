#include "hub/folders.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "base/file.h"
#include "base/strings.h"

namespace fak::hub {

Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return Fail(ErrnoError(error.value(), path));
  }
  return {};
}

Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) {
    return Fail(ErrnoError(error.value(), path));
  }
  return {};
}

uint64_t FreeBytes(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  return error ? UINT64_MAX : space.available;
}

FolderSize SizeOfFolder(const std::string& folder) {
  constexpr int kDepth = 3;
  FolderSize size;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  while (!error && at != std::filesystem::recursive_directory_iterator()) {
    if (at.depth() >= kDepth) {
      at.disable_recursion_pending();
    }
    std::error_code gone;
    const uint64_t bytes = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) {
      size.bytes += bytes;
      size.largest_file = std::max(size.largest_file, bytes);
    }
    at.increment(error);
  }
  return size;
}

int64_t WrittenNs(const struct stat& status) {
#ifdef __APPLE__
  const timespec& at = status.st_mtimespec;
#else
  const timespec& at = status.st_mtim;
#endif
  return int64_t{at.tv_sec} * kNsPerSecond + at.tv_nsec;
}

Error WriteError(int error_number, const std::string& path, uint64_t needed) {
  Error error = ErrnoError(error_number, path);
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG) {
    const std::string folder = path.substr(0, path.rfind('/'));
    error.code = Code::kResourceExhausted;
    error.detail += ": " + (needed == 0 ? "" : FormatBytes(needed) + " more are needed, ") +
                    FormatBytes(FreeBytes(folder)) +
                    " are free; set FAK_CACHE to a folder with more room";
  }
  return error;
}

}  // namespace fak::hub

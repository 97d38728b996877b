#include "hub/folders.h"

#include <filesystem>
#include <system_error>

#include "base/file.h"

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

}  // namespace fak::hub

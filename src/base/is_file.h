#pragma once

#include <sys/stat.h>

#include <string>

namespace fak {

// Whether a regular file is there, by that path or at the end of its links. Any thread; blocks.
inline bool IsFile(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace fak

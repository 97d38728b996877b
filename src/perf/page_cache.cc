#include "perf/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/file.h"

namespace fak::perf {
namespace {

#ifdef __linux__
Result<FileHandle> OpenToRead(const std::string& path) {
  FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return Fail(ErrnoError(errno, path));
  }
  return file;
}
#endif

}  // namespace

#ifdef __linux__

Status DropFromCache(const std::string& path) {
  TRY_ASSIGN(const FileHandle file, OpenToRead(path));
  fsync(file.fd());  // what can't be written stays in the cache, where CachedShare() sees it
  const int failed = posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  return failed == 0 ? Status() : Status(Fail(ErrnoError(failed, path)));
}

Result<double> CachedShare(const std::string& path) {
  TRY_ASSIGN(const FileHandle file, OpenToRead(path));
  struct stat info{};
  if (fstat(file.fd(), &info) != 0) {
    return Fail(ErrnoError(errno, path));
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0) {
    return 1.0;
  }
  void* const map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.fd(), 0);  // never touched
  if (map == MAP_FAILED) {
    return Fail(ErrnoError(errno, path));
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  const bool told = mincore(map, bytes, pages.data()) == 0;
  const int why = errno;
  munmap(map, bytes);
  if (!told) {
    return Fail(ErrnoError(why, path));
  }
  const auto in_memory =
      std::count_if(pages.begin(), pages.end(), [](unsigned char state) { return state & 1; });
  return static_cast<double>(in_memory) / static_cast<double>(pages.size());
}

#else

Status DropFromCache(const std::string& path) {
  return Fail(Code::kUnsupported, path + ": this system drops no file from its page cache");
}

Result<double> CachedShare(const std::string& path) {
  return Fail(Code::kUnsupported, path + ": this system doesn't say what is in its page cache");
}

#endif

}  // namespace fak::perf

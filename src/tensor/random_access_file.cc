#include "tensor/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace fak::tensor {
namespace {

std::string ErrnoText(int error) {
  return std::generic_category().message(error);
}

Code CodeOfOpen(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Code::kNotFound;
    case EACCES:
    case EPERM: return Code::kPermissionDenied;
    default: return Code::kIoError;
  }
}

}  // namespace

Result<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  // Not blocking, so that a named pipe is refused below and doesn't wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return Fail(CodeOfOpen(errno), ErrnoText(errno));
  }
  RandomAccessFile file(fd, 0);
  struct stat info = {};
  if (::fstat(fd, &info) != 0) {
    return Fail(Code::kIoError, ErrnoText(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(Code::kInvalidArgument, "not a regular file");
  }
  file.bytes_ = static_cast<uint64_t>(info.st_size);
#ifdef POSIX_FADV_SEQUENTIAL
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
  return file;
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}

RandomAccessFile::~RandomAccessFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Status RandomAccessFile::Read(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n == 0) {
      return Fail(
          Code::kDataCorrupt,
          fmt::format("the file was cut short after it was opened: it ends at or before byte "
                      "{}, and had {}",
                      offset + done, bytes_));
    }
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      return Fail(Code::kIoError, fmt::format("can't read {} bytes at {}: {}", out.size(), offset,
                                              ErrnoText(errno)));
    }
  }
  return {};
}

void RandomAccessFile::WillNeed(uint64_t offset, uint64_t bytes) const {
#ifdef POSIX_FADV_WILLNEED
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
#else
  static_cast<void>(offset);
  static_cast<void>(bytes);
#endif
}

}  // namespace fak::tensor

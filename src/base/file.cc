#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/private_file.h"

namespace fak {
namespace {

// Repeats a call that a signal interrupted.
template <class Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

Result<FileHandle> OpenFile(const std::string& path, int flags, mode_t mode = 0) {
  const int fd = Retry([&] { return open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (fd < 0) {
    return Fail(ErrnoError(errno, path));
  }
  return FileHandle(fd);
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return write(fd, bytes.data(), bytes.size()); });
    if (written < 0) {
      return Fail(ErrnoError(errno, path));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status WriteAndRename(int fd, const std::string& temporary, const std::string& path,
                      std::string_view bytes, mode_t mode) {
  TRY(WriteAll(fd, bytes, temporary));
  if (fchmod(fd, mode) != 0 || fsync(fd) != 0) {
    return Fail(ErrnoError(errno, temporary));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return Fail(ErrnoError(errno, path));
  }
  return {};
}

}  // namespace

Error ErrnoError(int error_number, std::string_view what) {
  Code code = Code::kIoError;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: code = Code::kNotFound; break;
    case EACCES:
    case EPERM:
    case EROFS: code = Code::kPermissionDenied; break;
    case EEXIST: code = Code::kAlreadyExists; break;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE: code = Code::kResourceExhausted; break;
    default: break;
  }
  return {code, std::string(what) + ": " +
                    std::error_code(error_number, std::generic_category()).message()};
}

Result<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  TRY_ASSIGN(const FileHandle file, OpenFile(path, O_RDONLY));
  return ReadDescriptor(file.fd(), path, bytes_max);
}

Result<std::string> ReadDescriptor(int fd, std::string_view what, size_t bytes_max) {
  constexpr size_t kStep = 64 * 1024;
  std::string bytes;
  size_t used = 0;
  while (true) {
    bytes.resize(std::min(std::max(used * 2, kStep), bytes_max + 1));
    const ssize_t got = Retry([&] { return read(fd, bytes.data() + used, bytes.size() - used); });
    if (got < 0 && errno == EAGAIN) {  // somebody who has it too made it so
      pollfd ready{fd, POLLIN, 0};
      poll(&ready, 1, -1);
      continue;
    }
    if (got < 0) {
      return Fail(ErrnoError(errno, what));
    }
    if (got == 0) {
      break;
    }
    used += static_cast<size_t>(got);
    if (used > bytes_max) {
      return Fail(Code::kPayloadTooLarge,
                  std::string(what) + ": more than " + std::to_string(bytes_max) + " bytes");
    }
  }
  bytes.resize(used);
  return bytes;
}

namespace {

Status WriteAtomically(const std::string& path, std::string_view bytes, mode_t mode) {
  std::string temporary = path + ".XXXXXX";
  const FileHandle file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) {
    return Fail(ErrnoError(errno, path));
  }
  if (Status written = WriteAndRename(file.fd(), temporary, path, bytes, mode); !written) {
    unlink(temporary.c_str());
    return written;
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  TRY_ASSIGN(const FileHandle handle,
             OpenFile(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY));
  // Some file systems can't sync a folder; the rename itself has happened.
  if (fsync(handle.fd()) != 0 && errno != EINVAL) {
    return Fail(ErrnoError(errno, folder));
  }
  return {};
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  return WriteAtomically(path, bytes, 0644);
}

Status WritePrivateFileAtomically(const std::string& path, std::string_view bytes) {
  return WriteAtomically(path, bytes, 0600);
}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int FileHandle::Release() {
  return std::exchange(fd_, -1);
}

void FileHandle::Reset() {
  if (const int fd = Release(); fd >= 0) {
    close(fd);
  }
}

Result<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  RandomAccessFile file;
  TRY_ASSIGN(file.handle_, OpenFile(path, O_RDONLY | O_NONBLOCK));
  struct stat info{};
  if (fstat(file.handle_.fd(), &info) != 0) {
    return Fail(ErrnoError(errno, path));
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(Code::kInvalidArgument, path + ": not a regular file");
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  file.path_ = path;
#ifdef POSIX_FADV_SEQUENTIAL
  posix_fadvise(file.handle_.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
  return file;
}

Status RandomAccessFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = Retry(
        [&] { return pread(handle_.fd(), out.data(), out.size(), static_cast<off_t>(offset)); });
    if (got < 0) {
      return Fail(ErrnoError(errno, path_));
    }
    if (got == 0) {
      return Fail(Code::kDataCorrupt,
                  path_ +
                      ": the file was cut short after it was opened: it ends at or before byte " +
                      std::to_string(offset) + ", and had " + std::to_string(size_));
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

void RandomAccessFile::WillNeed(uint64_t offset, uint64_t bytes) const {
#ifdef POSIX_FADV_WILLNEED
  posix_fadvise(handle_.fd(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_WILLNEED);
#else
  static_cast<void>(offset);
  static_cast<void>(bytes);
#endif
}

}  // namespace fak

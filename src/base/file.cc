#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

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

Result<uint64_t> RegularFileSize(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) {
    return Fail(ErrnoError(errno, path));
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(Code::kInvalidArgument, path + ": not a regular file");
  }
  return static_cast<uint64_t>(info.st_size);
}

Status WriteAndRename(int fd, const std::string& temporary, const std::string& path,
                      std::string_view bytes) {
  TRY(WriteAll(fd, bytes, temporary));
  if (fchmod(fd, 0644) != 0 || fsync(fd) != 0) {
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
    case ENOENT: code = Code::kNotFound; break;
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
  constexpr size_t kStep = 64 * 1024;
  std::string bytes;
  size_t used = 0;
  while (true) {
    bytes.resize(std::min(std::max(used * 2, kStep), bytes_max + 1));
    const ssize_t got =
        Retry([&] { return read(file.fd(), bytes.data() + used, bytes.size() - used); });
    if (got < 0) {
      return Fail(ErrnoError(errno, path));
    }
    if (got == 0) {
      break;
    }
    used += static_cast<size_t>(got);
    if (used > bytes_max) {
      return Fail(Code::kPayloadTooLarge,
                  path + ": more than " + std::to_string(bytes_max) + " bytes");
    }
  }
  bytes.resize(used);
  return bytes;
}

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  std::string temporary = path + ".XXXXXX";
  const FileHandle file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) {
    return Fail(ErrnoError(errno, path));
  }
  if (Status written = WriteAndRename(file.fd(), temporary, path, bytes); !written) {
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
  TRY_ASSIGN(file.handle_, OpenFile(path, O_RDONLY));
  TRY_ASSIGN(file.size_, RegularFileSize(file.fd(), path));
  file.path_ = path;
  return file;
}

Status RandomAccessFile::ReadAt(uint64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t got =
        Retry([&] { return pread(fd(), out.data(), out.size(), static_cast<off_t>(offset)); });
    if (got < 0) {
      return Fail(ErrnoError(errno, path_));
    }
    if (got == 0) {
      return Fail(Code::kDataCorrupt, path_ + ": the file ends at byte " + std::to_string(offset) +
                                          ", " + std::to_string(out.size()) + " bytes too early");
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  TRY_ASSIGN(const FileHandle handle, OpenFile(path, O_RDONLY));
  TRY_ASSIGN(const uint64_t size, RegularFileSize(handle.fd(), path));
  MappedFile file;
  if (size == 0) {
    return file;
  }
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, handle.fd(), 0);
  if (address == MAP_FAILED) {
    return Fail(ErrnoError(errno, path));
  }
  file.address_ = address;
  file.size_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) {
    munmap(address_, size_);
  }
}

void MappedFile::Forget(size_t offset, size_t size) const {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = (offset + page - 1) / page * page;
  const size_t end = std::min(offset + size, size_) / page * page;
  if (first < end) {
    madvise(static_cast<char*>(address_) + first, end - first, MADV_DONTNEED);
  }
}

}  // namespace fak

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fak {

// Files. Errors: kNotFound, kPermissionDenied, kResourceExhausted (disk full) or kIoError; the
// detail has the path and the system's reason. Any thread; all calls block.

// The error for an errno value of an operation on a path or other named thing.
Error ErrnoError(int error_number, std::string_view what);

// The whole file; kPayloadTooLarge when it has more than `bytes_max` bytes. Reads to the end, so
// it works for pipes and /proc too.
[[nodiscard]] Result<std::string> ReadFile(const std::string& path, size_t bytes_max);

// Replaces `path` in one step: whoever reads it sees the old bytes or all of the new ones, also
// after a crash (written beside it, synced, renamed, folder synced).
[[nodiscard]] Status WriteFileAtomically(const std::string& path, std::string_view bytes);

// A descriptor that closes itself. Move-only.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(other.Release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() { Reset(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

// A file opened for reading at offsets. Reads fail with an error when the file is shorter than
// it was (kDataCorrupt), where a mapping would raise SIGBUS. Any thread.
class RandomAccessFile {
 public:
  [[nodiscard]] static Result<RandomAccessFile> Open(const std::string& path);
  uint64_t size() const { return size_; }  // when opened
  const std::string& path() const { return path_; }
  int fd() const { return handle_.fd(); }
  // Fills all of `out` from `offset` on.
  [[nodiscard]] Status ReadAt(uint64_t offset, std::span<char> out) const;

 private:
  FileHandle handle_;
  std::string path_;
  uint64_t size_ = 0;
};

// A file mapped read-only. Touching the mapping after another process has cut the file short
// raises SIGBUS: map only what is checked or copied before anything depends on it. Move-only.
class MappedFile {
 public:
  [[nodiscard]] static Result<MappedFile> Open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::string_view bytes() const { return {static_cast<const char*>(address_), size_}; }
  size_t size() const { return size_; }
  // Tells the kernel that a range isn't needed any more, so that it stops counting as ours.
  void Forget(size_t offset, size_t size) const;

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fak

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

// The same of an open descriptor, from where it stands; `what` it is called in errors. Of sockets
// too, which can't be opened by a path, and of those that don't block: it waits.
[[nodiscard]] Result<std::string> ReadDescriptor(int fd, std::string_view what, size_t bytes_max);

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

// A regular file, open for reads at any offset. Its size is the one it had when it was opened: one
// that is cut short later gives an error (kDataCorrupt), where a mapping would raise SIGBUS. Const
// functions may be called from any thread.
class RandomAccessFile {
 public:
  // kInvalidArgument: not a regular file. Never waits, not even for the writer of a named pipe.
  [[nodiscard]] static Result<RandomAccessFile> Open(const std::string& path);
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Fills all of `out` from byte `offset` on.
  [[nodiscard]] Status ReadAt(uint64_t offset, std::span<std::byte> out) const;
  // Asks the system to read ahead. Returns at once.
  void WillNeed(uint64_t offset, uint64_t bytes) const;

 private:
  FileHandle handle_;
  std::string path_;
  uint64_t size_ = 0;
};

}  // namespace fak

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace fak::tensor {

// A regular file, open for reads at any offset. Its length is the one it had when it was opened: a
// file that is cut short later gives an error and not a signal, since nothing is mapped. Const
// functions may be called from any thread.
class RandomAccessFile {
 public:
  // kNotFound, kPermissionDenied, kInvalidArgument (not a regular file) or kIoError.
  [[nodiscard]] static Result<RandomAccessFile> Open(const std::string& path);

  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) = delete;
  ~RandomAccessFile();

  uint64_t bytes() const { return bytes_; }
  // Fills `out` from byte `offset` on. kDataCorrupt if the file ends before, kIoError.
  [[nodiscard]] Status Read(uint64_t offset, std::span<std::byte> out) const;
  // Asks the system to read ahead. Returns at once.
  void WillNeed(uint64_t offset, uint64_t bytes) const;

 private:
  RandomAccessFile(int fd, uint64_t bytes) : fd_(fd), bytes_(bytes) {}

  int fd_;
  uint64_t bytes_;
};

}  // namespace fak::tensor

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

// Memory of the device, and of the host as the device reaches it. Everything is taken while loading
// and compiling; a step takes none. Not thread-safe.
namespace fak::tensor::cuda {

// One allocation on the current device. Move-only.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  // kResourceExhausted, naming `what`, the size and what is free. bytes may be 0. Not zeroed.
  [[nodiscard]] static Result<Arena> Make(uint64_t bytes, std::string_view what);

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Page-locked memory of the host, which copies to and from the device need to run beside other
// work. Move-only.
class Pinned {
 public:
  Pinned() = default;
  ~Pinned();
  Pinned(Pinned&& other) noexcept;
  Pinned& operator=(Pinned&& other) noexcept;

  [[nodiscard]] static Result<Pinned> Make(uint64_t bytes, std::string_view what);
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Offsets are multiples of it: every load of a kernel is aligned at the start of a tensor.
inline constexpr uint64_t kAlignment = 256;
constexpr uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Weights: a few large arenas; what is given out stays until the end.
class WeightMemory {
 public:
  [[nodiscard]] Result<std::byte*> Take(uint64_t bytes);

 private:
  std::vector<Arena> arenas_;
  uint64_t used_ = 0;  // of the last
};

// Brings bytes to the device through two pinned buffers: one is filled while the other travels.
class Uploader {
 public:
  Uploader() = default;
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  static constexpr uint64_t kSliceBytes = uint64_t{16} << 20;

  // Memory for the next slice, at least kSliceBytes; waits until an earlier one has left it.
  [[nodiscard]] Result<std::span<std::byte>> Next(uint64_t bytes_min);
  // Sends the first `bytes` of what Next() gave.
  [[nodiscard]] Status Send(uint64_t bytes, std::byte* to, cudaStream_t stream);
  // Waits for all, and gives the buffers back.
  [[nodiscard]] Status Finish(cudaStream_t stream);

 private:
  struct Buffer {
    Pinned memory;
    uint64_t bytes = 0;
    cudaEvent_t sent = nullptr;
  };
  Buffer buffers_[2];
  size_t at_ = 0;
};

}  // namespace fak::tensor::cuda

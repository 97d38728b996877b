#include "tensor/cuda/memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tensor/cuda/status.h"

namespace fak::tensor::cuda {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{256} << 20;

std::string Mib(uint64_t bytes) {
  return std::to_string((bytes + (uint64_t{1} << 20) - 1) >> 20) + " MiB";
}

}  // namespace

Arena::~Arena() {
  cudaFree(data_);
}
Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<Arena> Arena::Make(uint64_t bytes, std::string_view what) {
  Arena arena;
  if (bytes == 0) {
    return arena;
  }
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it isn't sticky: whoever asks next must not be told
    size_t free = 0;
    size_t total = 0;
    TRY_CUDA(cudaMemGetInfo(&free, &total));
    return Fail(Code::kResourceExhausted, std::string(what) + ": " + Mib(bytes) +
                                              " don't fit on the GPU, which has " + Mib(free) +
                                              " of " + Mib(total) + " free");
  }
  TRY_CUDA(error);
  arena.data_ = static_cast<std::byte*>(memory);
  arena.bytes_ = bytes;
  return arena;
}

Pinned::~Pinned() {
  cudaFreeHost(data_);
}
Pinned::Pinned(Pinned&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
Pinned& Pinned::operator=(Pinned&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

Result<Pinned> Pinned::Make(uint64_t bytes, std::string_view what) {
  Pinned pinned;
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, std::max<uint64_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return Fail(Code::kResourceExhausted,
                std::string(what) + ": the system gives no " + Mib(bytes) + " of pinned memory");
  }
  TRY_CUDA(error);
  pinned.data_ = static_cast<std::byte*>(memory);
  return pinned;
}

Result<std::byte*> WeightMemory::Take(uint64_t bytes) {
  const uint64_t wanted = Aligned(bytes);
  if (arenas_.empty() || arenas_.back().bytes() - used_ < wanted) {
    TRY_ASSIGN(Arena arena, Arena::Make(std::max(wanted, kArenaBytes), "weights"));
    arenas_.push_back(std::move(arena));
    used_ = 0;
  }
  std::byte* const taken = arenas_.back().data() + used_;
  used_ += wanted;
  return taken;
}

Uploader::~Uploader() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.sent != nullptr) {
      cudaEventSynchronize(buffer.sent);
      cudaEventDestroy(buffer.sent);
    }
  }
}

Result<std::span<std::byte>> Uploader::Next(uint64_t bytes_min) {
  Buffer& buffer = buffers_[at_];
  if (buffer.sent == nullptr) {
    TRY_CUDA(cudaEventCreateWithFlags(&buffer.sent, cudaEventDisableTiming));
  }
  TRY_CUDA(cudaEventSynchronize(buffer.sent));
  const uint64_t wanted = std::max(bytes_min, kSliceBytes);
  if (buffer.bytes < wanted) {
    TRY_ASSIGN(buffer.memory, Pinned::Make(wanted, "the way of weights to the GPU"));
    buffer.bytes = wanted;
  }
  return std::span(buffer.memory.data(), buffer.bytes);
}

Status Uploader::Send(uint64_t bytes, std::byte* to, cudaStream_t stream) {
  Buffer& buffer = buffers_[at_];
  TRY_CUDA(cudaMemcpyAsync(to, buffer.memory.data(), bytes, cudaMemcpyHostToDevice, stream));
  TRY_CUDA(cudaEventRecord(buffer.sent, stream));
  at_ = 1 - at_;
  return {};
}

Status Uploader::Finish(cudaStream_t stream) {
  TRY_CUDA(cudaStreamSynchronize(stream));
  for (Buffer& buffer : buffers_) {
    buffer.memory = Pinned();
    buffer.bytes = 0;
  }
  return {};
}

}  // namespace fak::tensor::cuda

#include "tensor/cpu/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace fak::tensor::cpu {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
// Nothing this large can be backed; keeps the sums below from wrapping.
constexpr uint64_t kBytesMax = uint64_t{1} << 46;

}  // namespace

Arena::~Arena() {
  if (data_ != nullptr) {
    munmap(data_, mapped_);
  }
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Result<Arena> Arena::Make(uint64_t bytes, std::string_view what) {
  Arena arena;
  if (bytes == 0) {
    return arena;
  }
  const auto failed = [&](const char* why) {
    return Fail(Code::kResourceExhausted, "no memory for " + std::string(what) + " (" +
                                              std::to_string(bytes) + " bytes): " + why);
  };
  if (bytes > kBytesMax) {
    return failed("beyond what a process can address");
  }
  const uint64_t wanted = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // One page more, so that an aligned start lies inside; the rest is given back.
  void* const raw = mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return failed(std::strerror(errno));
  }
  std::byte* const start = static_cast<std::byte*>(raw);
  const uint64_t lead = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  if (lead > 0) {
    munmap(start, lead);
  }
  munmap(start + lead + wanted, kHugePage - lead);
#ifdef MADV_HUGEPAGE
  madvise(start + lead, wanted, MADV_HUGEPAGE);  // a wish; without it all works, slower
#endif
  arena.data_ = start + lead;
  arena.bytes_ = bytes;
  arena.mapped_ = wanted;
  return arena;
}

}  // namespace fak::tensor::cpu

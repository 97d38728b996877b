#include "base/spare_buffer.h"

#include <array>
#include <utility>

namespace fak {
namespace {

struct Spares {
  std::array<std::string, kSpareBuffersMax> buffers;
  size_t count = 0;
};

Spares& OfThread() {
  thread_local Spares spares;
  return spares;
}

// Beyond what a string has in itself.
bool HasMemory(const std::string& buffer) {
  return buffer.capacity() > std::string().capacity();
}

}  // namespace

void TakeSpare(std::string& buffer) {
  if (Spares& spares = OfThread(); !HasMemory(buffer) && spares.count > 0) {
    std::string& spare = spares.buffers[--spares.count];
    spare.assign(buffer);
    buffer.swap(spare);
  }
}

void GiveSpare(std::string& buffer) {
  Spares& spares = OfThread();
  buffer.clear();
  if (!HasMemory(buffer)) {
    return;
  }
  std::string given = std::exchange(buffer, {});
  if (given.capacity() <= kSpareBytesMax && spares.count < kSpareBuffersMax) {
    spares.buffers[spares.count++].swap(given);
  }
}

}  // namespace fak

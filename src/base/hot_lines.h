#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fak {

// The memory that the next piece of work on one of many things will touch, so that its cache lines
// are fetched together before it begins, rather than one after the other when it comes upon them.
// Addresses alone: what they point at may be gone, or have moved, as a prefetch of nothing does
// nothing. Beyond the bounds below the rest is left out. Not thread-safe. Hot path: bench/e2e.
class HotLines {
 public:
  static constexpr size_t kSpansMax = 24;
  static constexpr size_t kLinesMax = 128;

  void Add(const void* begin, size_t bytes) {
    const size_t into_line = reinterpret_cast<uintptr_t>(begin) % kLineBytes;
    const size_t lines =
        std::min((into_line + bytes + kLineBytes - 1) / kLineBytes, kLinesMax - lines_);
    if (bytes > 0 && lines > 0 && spans_ < kSpansMax) {
      at_[spans_++] = {static_cast<const char*>(begin) - into_line, lines};
      lines_ += lines;
    }
  }
  // Itself, without what it points at.
  template <class Object>
  void AddObject(const Object& object) {
    Add(&object, sizeof object);
  }
  // Its beginning: about an event of a stream.
  void AddBuffer(std::string_view buffer) {
    constexpr size_t kBufferBytesMax = 512;
    Add(buffer.data(), std::min(buffer.size(), kBufferBytesMax));
  }
  void Clear() { spans_ = lines_ = 0; }
  size_t lines() const { return lines_; }
  // Starts fetching them all, for being written to.
  void Prefetch() const {
    for (size_t i = 0; i < spans_; ++i) {
      for (size_t line = 0; line < at_[i].lines; ++line) {
        __builtin_prefetch(at_[i].from + line * kLineBytes, 1);
      }
    }
    asm volatile("");  // else GCC 12 takes this for a function without effects, and calls it never
  }

 private:
  static constexpr size_t kLineBytes = 64;
  struct Span {
    const char* from;
    size_t lines;
  };

  size_t spans_ = 0;
  size_t lines_ = 0;
  std::array<Span, kSpansMax> at_;
};

}  // namespace fak

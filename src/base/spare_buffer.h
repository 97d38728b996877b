#pragma once

#include <string>

namespace fak {

// Buffers for many who each need one for a moment, one after the other on the same thread: the few
// that go round stay in the near caches, where one for each would not. A thread keeps up to
// kSpareBuffersMax of up to kSpareBytesMax each. Any thread. Hot path: bench/e2e.
inline constexpr size_t kSpareBuffersMax = 4;
inline constexpr size_t kSpareBytesMax = size_t{16} * 1024;

// Gives `buffer` memory of this thread's, where it has none and there is some.
void TakeSpare(std::string& buffer);
// Empties it, and leaves its memory to the next on this thread.
void GiveSpare(std::string& buffer);

}  // namespace fak

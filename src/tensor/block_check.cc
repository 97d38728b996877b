#include "tensor/block_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/result.h"

namespace fak::tensor {
namespace {

constexpr uint16_t kF16Exponent = 0x7C00;
constexpr uint16_t kBf16Exponent = 0x7F80;
constexpr uint32_t kF32Exponent = 0x7F80'0000;

template <class Word>
Word LoadWord(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// A number with all exponent bits set is infinite or NaN.
template <class Word>
bool NonFinite(const std::byte* at, Word exponent) {
  return (LoadWord<Word>(at) & exponent) == exponent;
}

// Tests runs without an early exit, so that the loop becomes vector code, and looks closer at a run
// only if something is wrong with it.
template <class Word>
std::optional<size_t> FirstNonFiniteElement(std::span<const std::byte> bytes, Word exponent) {
  constexpr size_t kRun = 4096;
  const size_t count = bytes.size() / sizeof(Word);
  for (size_t begin = 0; begin < count; begin += kRun) {
    const size_t end = std::min(count, begin + kRun);
    unsigned bad = 0;
    for (size_t i = begin; i < end; ++i) {
      bad |= NonFinite(bytes.data() + i * sizeof(Word), exponent) ? 1u : 0u;
    }
    for (size_t i = begin; bad != 0 && i < end; ++i) {
      if (NonFinite(bytes.data() + i * sizeof(Word), exponent)) {
        return i;
      }
    }
  }
  return std::nullopt;
}

// Blocks whose f16 scale lies at byte `scale`, and a second f16 (minimum or offset) at byte
// `second`.
std::optional<size_t> FirstNonFiniteScale(std::span<const std::byte> bytes, size_t block_bytes,
                                          size_t scale, size_t second) {
  const size_t blocks = bytes.size() / block_bytes;
  for (size_t i = 0; i < blocks; ++i) {
    const std::byte* block = bytes.data() + i * block_bytes;
    if (NonFinite(block + scale, kF16Exponent) || NonFinite(block + second, kF16Exponent)) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> FirstNonFiniteBlock(DType type, std::span<const std::byte> bytes) {
  const size_t block_bytes = InfoOf(type).block_bytes;
  CHECK(IsComputed(type) && bytes.size() % block_bytes == 0)
      << bytes.size() << " bytes of " << DTypeName(type);
  switch (type) {
    case DType::kF32: return FirstNonFiniteElement(bytes, kF32Exponent);
    case DType::kF16: return FirstNonFiniteElement(bytes, kF16Exponent);
    case DType::kBf16: return FirstNonFiniteElement(bytes, kBf16Exponent);
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIq4Nl:
    case DType::kIq4Xs: return FirstNonFiniteScale(bytes, block_bytes, 0, 0);
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4K:
    case DType::kQ5K: return FirstNonFiniteScale(bytes, block_bytes, 0, 2);
    case DType::kQ2K: return FirstNonFiniteScale(bytes, block_bytes, 80, 82);
    case DType::kQ3K: return FirstNonFiniteScale(bytes, block_bytes, 108, 108);
    case DType::kQ6K: return FirstNonFiniteScale(bytes, block_bytes, 208, 208);
  }
  return std::nullopt;
}

}  // namespace fak::tensor

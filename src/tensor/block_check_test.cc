#include "tensor/block_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/quantise.h"
#include "tensor/spec/dequantise.h"

namespace fak::tensor {
namespace {

constexpr int64_t kElements = 256 * 40;

std::vector<std::byte> Valid(DType type) {
  std::vector<float> x(kElements);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(RowBytes(type, kElements)));
  QuantiseRow(type, x, bytes);
  return bytes;
}

bool AllFinite(DType type, const std::vector<std::byte>& bytes, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i) {
    if (!std::isfinite(spec::DequantisedElement(type, bytes.data(), i))) {
      return false;
    }
  }
  return true;
}

// Writes non-finite bit patterns at every place of a block: the check must find exactly those that
// make an element of the block non-finite.
TEST(FirstNonFiniteBlock, FindsWhatMakesAnElementNonFinite) {
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.support != DTypeSupport::kComputed) {
      continue;
    }
    SCOPED_TRACE(info.name);
    std::vector<std::byte> bytes = Valid(info.type);
    EXPECT_EQ(FirstNonFiniteBlock(info.type, bytes), std::nullopt);
    const size_t block = bytes.size() / info.block_bytes - 1;
    const size_t start = block * info.block_bytes;
    size_t found = 0;
    for (size_t at = 0; at + 2 <= info.block_bytes; ++at) {
      for (const uint16_t pattern : {uint16_t{0x7C00}, uint16_t{0xFE01}, uint16_t{0x7F80}}) {
        std::vector<std::byte> broken = bytes;
        std::memcpy(broken.data() + start + at, &pattern, sizeof pattern);
        const bool finite =
            AllFinite(info.type, broken, static_cast<int64_t>(block) * info.block_elements,
                      info.block_elements);
        const auto expected = finite ? std::nullopt : std::optional<size_t>(block);
        EXPECT_EQ(FirstNonFiniteBlock(info.type, broken), expected)
            << "pattern " << pattern << " at " << at;
        found += finite ? 0u : 1u;
      }
    }
    EXPECT_GT(found, 0u);
  }
}

}  // namespace
}  // namespace fak::tensor

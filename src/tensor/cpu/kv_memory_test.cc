#include "tensor/cpu/kv_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace fak::tensor::cpu {
namespace {

KvSpec Spec(KvType type, uint32_t block_size) {
  KvSpec spec;
  spec.layers = {{2, 24}, {1, 80}};
  spec.type = type;
  spec.block_size = block_size;
  spec.blocks = 5;
  return spec;
}

std::vector<std::byte> Pattern(size_t n, uint32_t seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<std::byte>((i * 31 + seed * 97 + i / 251) & 0xff);
  }
  return bytes;
}

size_t PositionBytes(const KvSpec& spec, uint32_t layer) {
  return size_t{spec.layers[layer].kv_heads} * spec.layers[layer].head_dim * KvTypeBytes(spec.type);
}

class EveryKv : public ::testing::TestWithParam<std::tuple<KvType, uint32_t>> {
 protected:
  KvSpec spec_ = Spec(std::get<0>(GetParam()), std::get<1>(GetParam()));
  KvMemory memory_ = std::move(KvMemory::Make(spec_)).value();

  std::vector<std::byte> Read(BlockId block, uint32_t layer, KvPart part, uint32_t first,
                              uint32_t count) const {
    std::vector<std::byte> out(PositionBytes(spec_, layer) * count);
    memory_.Read(block, layer, part, first, count, out);
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Kv, EveryKv,
                         ::testing::Combine(::testing::Values(KvType::kF32, KvType::kF16,
                                                              KvType::kBf16),
                                            ::testing::Values(16u, 32u, 256u)));

TEST_P(EveryKv, ReadsBackWhatWasWrittenInAnyCut) {
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
      const size_t position = PositionBytes(spec_, layer);
      const std::vector<std::byte> all = Pattern(position * spec_.block_size, layer);
      for (uint32_t first = 0; first < spec_.block_size; first += 5) {
        const uint32_t count = std::min(5u, spec_.block_size - first);
        memory_.Write(BlockId{3}, layer, part, first, count,
                      std::span(all).subspan(first * position, count * position));
      }
      EXPECT_TRUE(Read(BlockId{3}, layer, part, 0, spec_.block_size) == all);
      const auto from = all.begin() + static_cast<ptrdiff_t>(3 * position);
      EXPECT_TRUE(Read(BlockId{3}, layer, part, 3, 9) ==
                  std::vector<std::byte>(from, from + static_cast<ptrdiff_t>(9 * position)));
    }
  }
}

TEST_P(EveryKv, CopiesABlockAndLeavesTheOthersAlone) {
  const auto fill = [&](BlockId block, uint32_t seed) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
        memory_.Write(block, layer, part, 0, spec_.block_size,
                      Pattern(PositionBytes(spec_, layer) * spec_.block_size, seed));
      }
    }
  };
  fill(BlockId{0}, 1);
  fill(BlockId{1}, 2);
  fill(BlockId{2}, 3);
  memory_.CopyBlock(BlockId{0}, BlockId{1}, 11);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
      EXPECT_TRUE(Read(BlockId{1}, layer, part, 0, 11) == Read(BlockId{0}, layer, part, 0, 11));
      EXPECT_TRUE(Read(BlockId{2}, layer, part, 0, spec_.block_size) ==
                  Pattern(PositionBytes(spec_, layer) * spec_.block_size, 3));
    }
  }
}

TEST(KvMemory, PricesABlockAsTheCanonicalBytesPlusPadding) {
  KvSpec spec = Spec(KvType::kF16, 16);
  spec.layers = {{3, 64}, {3, 64}};
  EXPECT_EQ(KvMemory::BlockBytes(spec), spec.BlockBytes()) << "64 needs no padding";
  spec.layers = {{2, 24}};
  EXPECT_EQ(KvMemory::BlockBytes(spec), 2u * 16 * 2 * (24 + 32)) << "rows of V are whole vectors";
}

TEST(KvMemory, RefusesABlockSizeThatIsNoPowerOfTwoInBounds) {
  for (const uint32_t size : {0u, 8u, 24u, 512u}) {
    KvSpec spec = Spec(KvType::kF16, size);
    const Result<KvMemory> memory = KvMemory::Make(spec);
    ASSERT_FALSE(memory.has_value()) << size;
    EXPECT_EQ(memory.error().code, Code::kInvalidArgument);
    EXPECT_EQ(memory.error().field, "block_size");
  }
}

TEST(KvMemory, RefusesWhatNoMachineHas) {
  KvSpec spec = Spec(KvType::kF32, 256);
  spec.blocks = 0xffffffffu;
  const Result<KvMemory> memory = KvMemory::Make(spec);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, Code::kResourceExhausted);
}

TEST(KvMemory, KeepsStatesApart) {
  KvSpec spec = Spec(KvType::kF16, 16);
  spec.state_floats = {7, 20};
  spec.state_slots = 3;
  KvMemory memory = std::move(KvMemory::Make(spec)).value();
  for (uint32_t slot = 0; slot < 3; ++slot) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      const std::span<float> state = memory.State(StateSlot{slot}, layer);
      ASSERT_EQ(state.size(), spec.state_floats[layer]);
      std::ranges::fill(state, static_cast<float>(slot * 10 + layer + 1));
    }
  }
  memory.CopyState(StateSlot{2}, StateSlot{0});
  memory.ZeroState(StateSlot{1});
  EXPECT_EQ(memory.State(StateSlot{0}, 0)[6], 21.0f);
  EXPECT_EQ(memory.State(StateSlot{0}, 1)[19], 22.0f);
  EXPECT_EQ(memory.State(StateSlot{1}, 1)[0], 0.0f);
  EXPECT_EQ(memory.State(StateSlot{2}, 1)[0], 22.0f);
}

}  // namespace
}  // namespace fak::tensor::cpu

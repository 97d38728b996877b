#include "perf/model_work.h"

#include <vector>

#include <gtest/gtest.h>

namespace fak::perf {
namespace {

using tensor::DType;
using tensor::GgufTensor;

GgufTensor Matrix(std::string_view name, DType type, int64_t columns, int64_t rows, uint64_t bytes,
                  int64_t experts = 1) {
  return {.name = name,
          .type = type,
          .dims = rows == 1     ? 1
                  : experts > 1 ? 3
                                : 2,
          .shape = {columns, rows, experts, 1},
          .bytes = bytes};
}

TEST(WorkOf, ATableThatIsTheHeadIsReadAndMultiplied) {
  const std::vector<GgufTensor> tensors = {
      Matrix("token_embd.weight", DType::kQ8_0, 64, 100, 6800),
      Matrix("blk.0.attn_q.weight", DType::kQ8_0, 64, 64, 4352),
      Matrix("blk.0.attn_norm.weight", DType::kF32, 64, 1, 256)};
  const ModelWork work = WorkOf(tensors, 0, 0);
  EXPECT_EQ(work.token_bytes, 6800u + 4352u + 256u);
  EXPECT_EQ(work.body_ops, 2u * 64 * 64) << "a norm is no product";
  EXPECT_EQ(work.head_ops, 2u * 64 * 100);
  EXPECT_EQ(work.PromptOps(10), 10 * 2u * 64 * 64 + 2u * 64 * 100) << "the head runs once";
  EXPECT_TRUE(work.of_bytes);
}

TEST(WorkOf, ATableBesideAHeadIsNotRead) {
  const std::vector<GgufTensor> tensors = {Matrix("token_embd.weight", DType::kQ8_0, 64, 100, 6800),
                                           Matrix("output.weight", DType::kF16, 64, 100, 12800)};
  const ModelWork work = WorkOf(tensors, 0, 0);
  EXPECT_EQ(work.token_bytes, 12800u);
  EXPECT_EQ(work.head_ops, 2u * 64 * 100);
  EXPECT_FALSE(work.of_bytes);
}

TEST(WorkOf, ATokenTakesSomeExperts) {
  const std::vector<GgufTensor> tensors = {
      Matrix("blk.0.ffn_up_exps.weight", DType::kQ8_0, 64, 32, 8 * 2176, 8),
      Matrix("blk.0.ffn_gate_inp.weight", DType::kF32, 64, 8, 2048)};
  const ModelWork work = WorkOf(tensors, 8, 2);
  EXPECT_EQ(work.token_bytes, 2 * 2176u + 2048u);
  EXPECT_EQ(work.body_ops, 2u * 2 * 64 * 32 + 2u * 64 * 8);
}

}  // namespace
}  // namespace fak::perf

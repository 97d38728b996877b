#include "engine/verify_cells.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/file.h"

namespace fak::engine {
namespace {

using tensor::Isa;

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};

std::vector<uint32_t> ValuesOf(const VerifyCell& cell) {
  return {cell.batch,
          cell.chunk,
          static_cast<uint32_t>(cell.path),
          cell.threads,
          static_cast<uint32_t>(cell.isa),
          static_cast<uint32_t>(cell.kv)};
}

TEST(VerifyCells, ValuesAreAllCovered) {
  const std::vector<VerifyCell> cells = VerifyCells(VerifyCover::kValues, kIsas);
  std::map<size_t, std::set<uint32_t>> seen;
  int long_cells = 0;
  for (const VerifyCell& cell : cells) {
    const std::vector<uint32_t> values = ValuesOf(cell);
    for (size_t axis = 0; axis < values.size(); ++axis) {
      seen[axis].insert(values[axis]);
    }
    const bool is_long = VerifyPromptTokens(VerifyCover::kValues, cell) == kVerifyPromptLong;
    long_cells += is_long ? 1 : 0;
    EXPECT_FALSE(cell.isa == Isa::kScalar && is_long);
  }
  EXPECT_EQ(seen[0], (std::set<uint32_t>{1, 2, 3, 8, 16}));
  EXPECT_EQ(seen[1], (std::set<uint32_t>{0, 1, 7, 64, 512}));
  EXPECT_EQ(seen[2].size(), 5u);
  EXPECT_EQ(seen[3], (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(seen[4].size(), 3u);
  EXPECT_EQ(seen[5].size(), 2u);
  EXPECT_EQ(cells.size(), 5u);
  EXPECT_EQ(long_cells, 1);  // its reference is what takes longest
}

TEST(VerifyCells, PairsAreAllCovered) {
  const std::vector<VerifyCell> cells = VerifyCells(VerifyCover::kPairs, kIsas);
  const std::vector<VerifyCell> product = VerifyCells(VerifyCover::kProduct, kIsas);
  EXPECT_EQ(product.size(), 5u * 5 * 5 * 3 * 3 * 2);
  EXPECT_LE(cells.size(), 32u);  // 25 at least: two axes of five
  using Pair = std::tuple<size_t, uint32_t, size_t, uint32_t>;
  const auto pairs = [](const std::vector<VerifyCell>& of) {
    std::set<Pair> out;
    for (const VerifyCell& cell : of) {
      const std::vector<uint32_t> values = ValuesOf(cell);
      for (size_t a = 0; a < values.size(); ++a) {
        for (size_t b = a + 1; b < values.size(); ++b) {
          out.emplace(a, values[a], b, values[b]);
        }
      }
    }
    return out;
  };
  EXPECT_EQ(pairs(cells), pairs(product));
}

TEST(VerifyCells, CellsOfOneEngineAreNeighbours) {
  for (const VerifyCover cover :
       {VerifyCover::kValues, VerifyCover::kPairs, VerifyCover::kProduct}) {
    std::set<std::tuple<tensor::KvType, Isa, uint32_t>> left;
    std::tuple<tensor::KvType, Isa, uint32_t> now;
    for (const VerifyCell& cell : VerifyCells(cover, kIsas)) {
      const std::tuple engine{cell.kv, cell.isa, cell.threads};
      EXPECT_TRUE(engine == now || !left.contains(engine));
      left.insert(engine);
      now = engine;
    }
  }
}

TEST(VerifyCells, AChunkIsShorterThanItsPrompt) {
  for (const VerifyCell& cell : VerifyCells(VerifyCover::kProduct, kIsas)) {
    EXPECT_LT(cell.chunk, VerifyPromptTokens(VerifyCover::kProduct, cell));
    EXPECT_LT(cell.chunk, VerifyPromptTokens(VerifyCover::kValues, cell));
  }
}

// Runs of blanks as one.
std::string Squeezed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || out.empty() || out.back() != ' ') {
      out += c;
    }
  }
  return out;
}

TEST(VerifyCells, QuickOnesAreThoseOfTheReadme) {
  const std::string page = Squeezed(*ReadFile("README.md", 1 << 20));
  const size_t table = page.find("KV ISA threads batch chunk path prompt");
  ASSERT_NE(table, std::string::npos);
  const std::vector<VerifyCell> cells = VerifyCells(VerifyCover::kValues, kIsas);
  for (const VerifyCell& cell : cells) {
    const std::string chunk = cell.chunk == 0 ? "whole" : std::to_string(cell.chunk);
    const std::string row = fmt::format(
        "\n {} {} {} {} {} {} {} ", KvTypeName(cell.kv), tensor::IsaName(cell.isa), cell.threads,
        cell.batch, chunk, KvPathName(cell.path), VerifyPromptTokens(VerifyCover::kValues, cell));
    EXPECT_NE(page.find(row, table), std::string::npos) << row;
  }
  const std::string_view rows =
      std::string_view(page).substr(table, page.find("\n\n", table) - table);
  EXPECT_EQ(static_cast<size_t>(std::count(rows.begin(), rows.end(), '\n')), cells.size());
}

TEST(CoveringRows, PrefersTheCheaperOfEquals) {
  const std::vector<uint32_t> sizes = {2, 3};
  const auto rows = CoveringRows(sizes, 1, [](std::span<const uint32_t> row) {
    return row[0] == 1 && row[1] == 2 ? 0.0 : 1.0;
  });
  EXPECT_EQ(rows.front(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(rows.size(), 3u);
}

}  // namespace
}  // namespace fak::engine

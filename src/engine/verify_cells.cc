#include "engine/verify_cells.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "base/result.h"

namespace fak::engine {
namespace {

constexpr std::array<uint32_t, 5> kBatches = {1, 2, 3, 8, 16};
constexpr std::array<uint32_t, 5> kChunks = {1, 7, 64, 512, 0};
constexpr std::array<KvPath, 5> kPaths = {KvPath::kCold, KvPath::kHitAtEdge, KvPath::kHitInBlock,
                                          KvPath::kHitAfterEviction, KvPath::kPreempted};
constexpr std::array<uint32_t, 3> kThreads = {1, 2, 3};
constexpr std::array<tensor::KvType, 2> kKvTypes = {tensor::KvType::kF16, tensor::KvType::kF32};

VerifyCell CellAt(std::span<const uint32_t> row, std::span<const tensor::Isa> isas) {
  return {.batch = kBatches[row[0]],
          .chunk = kChunks[row[1]],
          .path = kPaths[row[2]],
          .threads = kThreads[row[3]],
          .isa = isas[row[4]],
          .kv = kKvTypes[row[5]]};
}

// Rows to compute, those of a scalar cell counted for what they take.
double CostOf(VerifyCover cover, const VerifyCell& cell) {
  constexpr double kScalarFactor = 10.0;
  const double steps = cell.chunk == 0 ? 1.0 : double{kVerifyPromptLong} / cell.chunk;
  const double rows = VerifyPromptTokens(cover, cell) + std::min(steps, 64.0) * cell.batch;
  return cell.isa == tensor::Isa::kScalar ? kScalarFactor * rows : rows;
}

bool Next(std::vector<uint32_t>& row, std::span<const uint32_t> sizes) {
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (++row[axis] < sizes[axis]) {
      return true;
    }
    row[axis] = 0;
  }
  return false;
}

// (axis, value, axis, value); with one axis alone, both are the same.
using Tuple = std::array<uint32_t, 4>;

template <class Visit>
void ForTuples(std::span<const uint32_t> row, uint32_t strength, Visit visit) {
  for (uint32_t a = 0; a < row.size(); ++a) {
    for (uint32_t b = strength == 1 ? a : a + 1; b < (strength == 1 ? a + 1 : row.size()); ++b) {
      visit(Tuple{a, row[a], b, row[b]});
    }
  }
}

std::vector<std::vector<uint32_t>> Product(std::span<const uint32_t> sizes) {
  std::vector<std::vector<uint32_t>> rows;
  std::vector<uint32_t> row(sizes.size(), 0);
  do {
    rows.push_back(row);
  } while (Next(row, sizes));
  return rows;
}

}  // namespace

std::string_view KvPathName(KvPath path) {
  switch (path) {
    case KvPath::kCold: return "cold";
    case KvPath::kHitAtEdge: return "hit at edge";
    case KvPath::kHitInBlock: return "hit in block";
    case KvPath::kHitAfterEviction: return "after eviction";
    case KvPath::kPreempted: return "preempted";
  }
  return "";
}

std::string_view KvTypeName(tensor::KvType type) {
  switch (type) {
    case tensor::KvType::kF32: return "f32";
    case tensor::KvType::kF16: return "f16";
    case tensor::KvType::kBf16: return "bf16";
  }
  return "";
}

std::string_view VerifyCoverName(VerifyCover cover) {
  switch (cover) {
    case VerifyCover::kValues: return "values";
    case VerifyCover::kPairs: return "pairs";
    case VerifyCover::kProduct: return "product";
  }
  return "";
}

uint32_t VerifyPromptTokens(VerifyCover cover, const VerifyCell& cell) {
  const bool needs_long = cell.chunk >= kVerifyPromptShort;
  const bool slow = cell.chunk == 1 || cell.isa == tensor::Isa::kScalar;
  const bool takes_long = needs_long || (cover != VerifyCover::kValues && !slow);
  return takes_long ? kVerifyPromptLong : kVerifyPromptShort;
}

std::vector<std::vector<uint32_t>> CoveringRows(
    std::span<const uint32_t> sizes, uint32_t strength,
    const std::function<double(std::span<const uint32_t>)>& cost) {
  CHECK(strength == 1 || strength == 2);
  const std::vector<std::vector<uint32_t>> product = Product(sizes);
  std::set<Tuple> open;
  for (const std::vector<uint32_t>& row : product) {
    ForTuples(row, strength, [&open](const Tuple& tuple) { open.insert(tuple); });
  }
  std::vector<std::vector<uint32_t>> rows;
  while (!open.empty()) {
    const std::vector<uint32_t>* best = nullptr;
    std::tuple<int64_t, double> best_rank;
    for (const std::vector<uint32_t>& row : product) {
      int64_t covered = 0;
      ForTuples(row, strength,
                [&](const Tuple& tuple) { covered += open.contains(tuple) ? 1 : 0; });
      const std::tuple<int64_t, double> rank{-covered, cost(row)};
      if (best == nullptr || rank < best_rank) {
        best = &row;
        best_rank = rank;
      }
    }
    ForTuples(*best, strength, [&open](const Tuple& tuple) { open.erase(tuple); });
    rows.push_back(*best);
  }
  return rows;
}

std::vector<VerifyCell> VerifyCells(VerifyCover cover, std::span<const tensor::Isa> isas) {
  const std::array<uint32_t, 6> sizes = {kBatches.size(),
                                         kChunks.size(),
                                         kPaths.size(),
                                         kThreads.size(),
                                         static_cast<uint32_t>(isas.size()),
                                         kKvTypes.size()};
  const auto cost = [cover, isas](std::span<const uint32_t> row) {
    return CostOf(cover, CellAt(row, isas));
  };
  const std::vector<std::vector<uint32_t>> rows =
      cover == VerifyCover::kProduct
          ? Product(sizes)
          : CoveringRows(sizes, cover == VerifyCover::kPairs ? 2 : 1, cost);
  std::vector<VerifyCell> cells;
  cells.reserve(rows.size());
  for (const std::vector<uint32_t>& row : rows) {
    cells.push_back(CellAt(row, isas));
  }
  std::stable_sort(cells.begin(), cells.end(), [](const VerifyCell& a, const VerifyCell& b) {
    return std::tuple(a.kv != tensor::KvType::kF16, a.isa, a.threads) <
           std::tuple(b.kv != tensor::KvType::kF16, b.isa, b.threads);
  });
  return cells;
}

}  // namespace fak::engine

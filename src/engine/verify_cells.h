#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/cpu_backend.h"

// The matrix that `fak verify` walks: its axes, and which of its cells a run takes.
namespace fak::engine {

// How a sequence came by its KV.
enum class KvPath : uint8_t {
  kCold,              // computed, all of it
  kHitAtEdge,         // a prefix of whole blocks came from the prefix cache
  kHitInBlock,        // a prefix that ends inside a block did, so that block was copied
  kHitAfterEviction,  // half of the prompt had been evicted and its blocks were used by others
  kPreempted,         // its blocks were taken away halfway, and half of them were computed anew
};
std::string_view KvPathName(KvPath path);
std::string_view KvTypeName(tensor::KvType type);

struct VerifyCell {
  uint32_t batch = 1;  // sequences in each step that computes the target
  uint32_t chunk = 0;  // rows of the target's prompt in a step; 0: all at once
  KvPath path = KvPath::kCold;
  uint32_t threads = 1;
  tensor::Isa isa = tensor::Isa::kScalar;
  tensor::KvType kv = tensor::KvType::kF16;

  friend bool operator==(const VerifyCell&, const VerifyCell&) = default;
};

enum class VerifyCover : uint8_t {
  kValues,   // every value of every axis
  kPairs,    // every pair of values of two axes
  kProduct,  // every combination
};
std::string_view VerifyCoverName(VerifyCover cover);

// Tokens of a cell's prompt, one of two lengths: the longer one where the chunk is no chunk of the
// shorter, and otherwise for cells that are quick, unless only values are to be covered. Scalar
// kernels are slow, and the reference of each length takes them. Both end 14 positions into a block
// of 16: the second token that follows fills it, so a sequence whose whole prompt went into one
// step can still run out of blocks before its last token.
inline constexpr uint32_t kVerifyPromptShort = 4 * 16 + 14;
inline constexpr uint32_t kVerifyPromptLong = 33 * 16 + 14;
uint32_t VerifyPromptTokens(VerifyCover cover, const VerifyCell& cell);

// The axes are those of the project's promise; isas: the instruction sets to walk. Cheap cells are
// preferred where a choice is free. Ordered so that cells of one engine (KV type, instruction set,
// threads) are neighbours.
std::vector<VerifyCell> VerifyCells(VerifyCover cover, std::span<const tensor::Isa> isas);

// Rows of indexes, one an axis, such that every combination of values of any `strength` axes (1 or
// 2) is in some row. sizes: values of each axis. Greedy: each row is the one of the whole product
// that covers most of what is left, then the cheapest, then the first; so the product must be
// small. Pure.
std::vector<std::vector<uint32_t>> CoveringRows(
    std::span<const uint32_t> sizes, uint32_t strength,
    const std::function<double(std::span<const uint32_t>)>& cost);

}  // namespace fak::engine

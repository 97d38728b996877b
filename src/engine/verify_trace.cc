#include "engine/verify_trace.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace fak::engine {
namespace {

uint32_t WidthOf(const tensor::KvLayerShape& layer) {
  return layer.kv_heads * layer.head_dim;
}

uint64_t KvValues(const Trace& trace) {
  return trace.kv.size() / tensor::KvTypeBytes(trace.type);
}

uint32_t BitsAt(const Trace& trace, size_t offset) {
  uint32_t whole = 0;
  uint16_t half = 0;
  if (tensor::KvTypeBytes(trace.type) == sizeof half) {
    std::memcpy(&half, trace.kv.data() + offset, sizeof half);
    return half;
  }
  std::memcpy(&whole, trace.kv.data() + offset, sizeof whole);
  return whole;
}

std::string Hex(uint32_t bits, uint32_t digits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", static_cast<int>(digits), bits);
  return text;
}

std::string Bits(uint32_t actual, uint32_t expected, uint32_t digits) {
  return ": " + Hex(actual, digits) + ", expected " + Hex(expected, digits);
}

// Rows of one position in the canonical order, with their places.
class KvWalk {
 public:
  KvWalk(const Trace& expected, const Trace& actual, Comparison& out)
      : expected_(expected), actual_(actual), out_(out) {}

  void Run() {
    for (uint32_t layer = 0; layer < expected_.layers.size(); ++layer) {
      const uint32_t width = WidthOf(expected_.layers[layer]);
      for (const char part : {'K', 'V'}) {
        for (uint32_t position = 0; position < expected_.positions; ++position) {
          CompareRow(layer, part, position, width);
        }
      }
    }
  }

 private:
  void CompareRow(uint32_t layer, char part, uint32_t position, uint32_t width) {
    const uint32_t bytes = tensor::KvTypeBytes(expected_.type);
    if (std::memcmp(expected_.kv.data() + at_, actual_.kv.data() + at_, width * bytes) == 0) {
      at_ += width * bytes;
      return;
    }
    const uint32_t dim = expected_.layers[layer].head_dim;
    for (uint32_t i = 0; i < width; ++i, at_ += bytes) {
      const uint32_t expected = BitsAt(expected_, at_);
      const uint32_t actual = BitsAt(actual_, at_);
      if (expected == actual) {
        continue;
      }
      if (out_.kv_differing++ == 0) {
        out_.first = std::string(1, part) + " of layer " + std::to_string(layer) + ", position " +
                     std::to_string(position) + ", head " + std::to_string(i / dim) + ", element " +
                     std::to_string(i % dim) + Bits(actual, expected, 2 * bytes);
      }
    }
  }

  const Trace& expected_;
  const Trace& actual_;
  Comparison& out_;
  size_t at_ = 0;
};

bool SameShape(const Trace& a, const Trace& b) {
  const auto same = [](const tensor::KvLayerShape& x, const tensor::KvLayerShape& y) {
    return x.kv_heads == y.kv_heads && x.head_dim == y.head_dim;
  };
  return a.type == b.type && a.positions == b.positions &&
         std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(), same) &&
         a.kv.size() == b.kv.size();
}

void CompareKv(const Trace& expected, const Trace& actual, Comparison& out) {
  out.kv_values = std::max(KvValues(expected), KvValues(actual));
  if (SameShape(expected, actual)) {
    KvWalk(expected, actual, out).Run();
    return;
  }
  out.kv_differing = out.kv_values;
  out.first = "KV of " + std::to_string(actual.positions) + " positions, expected " +
              std::to_string(expected.positions);
}

void CompareLogits(const Trace& expected, const Trace& actual, Comparison& out) {
  out.logit_values = std::max(expected.logits.size(), actual.logits.size());
  const size_t both = std::min(expected.logits.size(), actual.logits.size());
  for (size_t i = 0; i < both; ++i) {
    const auto a = std::bit_cast<uint32_t>(actual.logits[i]);
    const auto e = std::bit_cast<uint32_t>(expected.logits[i]);
    if (a == e) {
      continue;
    }
    ++out.logits_differing;
    if (out.first.empty()) {
      out.first = "logits of generated token " + std::to_string(i / expected.vocabulary) +
                  ", element " + std::to_string(i % expected.vocabulary) + Bits(a, e, 8);
    }
  }
  out.logits_differing += out.logit_values - both;
  if (out.logit_values != both && out.first.empty()) {
    out.first = std::to_string(actual.logits.size()) + " logits, expected " +
                std::to_string(expected.logits.size());
  }
}

}  // namespace

void Trace::ReadKv(const LoadedEngine& engine, const Sequence& sequence) {
  const tensor::KvSpec& spec = engine.backend->kv();
  layers = spec.layers;
  type = spec.type;
  positions = sequence.computed;
  kv.clear();
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    const size_t row = size_t{WidthOf(layers[layer])} * tensor::KvTypeBytes(type);
    for (const tensor::KvPart part : {tensor::KvPart::kKey, tensor::KvPart::kValue}) {
      for (uint32_t first = 0; first < positions; first += spec.block_size) {
        const uint32_t count = std::min(spec.block_size, positions - first);
        const size_t at = kv.size();
        kv.resize(at + count * row);
        engine.backend->ReadKv(sequence.blocks[first / spec.block_size], layer, part, 0, count,
                               std::span(kv).subspan(at));
      }
    }
  }
}

void Trace::ReadLogits(const LoadedEngine& engine, uint32_t row) {
  vocabulary = engine.shape.vocabulary;
  const size_t at = logits.size();
  logits.resize(at + vocabulary);
  engine.executable->ReadLogits(row, std::span(logits).subspan(at));
}

Comparison Compare(const Trace& expected, const Trace& actual) {
  Comparison out;
  CompareKv(expected, actual, out);
  CompareLogits(expected, actual, out);
  return out;
}

}  // namespace fak::engine

// fuzz: links fak_tensor
// Parses bytes as the head of a GGUF file, walks all that came out, and holds the parser to its
// word about prefixes: one that it doesn't ask more for gives the answer that the whole file gives.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/gguf_head.h"

namespace {

using fak::Result;
using fak::tensor::GgufHead;
using fak::tensor::GgufKey;
using fak::tensor::GgufTensor;
using fak::tensor::GgufValue;

size_t Walk(const GgufValue& value) {
  size_t seen = 0;
  if (const auto strings = value.AsStrings()) {
    for (const std::string_view text : *strings) {
      for (const char c : text) {
        seen += static_cast<unsigned char>(c);
      }
    }
  }
  seen += value.AsU32() ? 1u : 0u;
  seen += value.AsF32() ? 1u : 0u;
  seen += value.AsBool() ? 1u : 0u;
  seen += value.AsString().value_or("").size();
  if (const auto floats = value.AsF32Array()) {
    seen += floats->size();
  }
  if (const auto integers = value.AsI32Array()) {
    seen += integers->size();
  }
  seen += value.AsU32PerLayer(3) ? 1u : 0u;
  seen += value.AsBoolPerLayer(3) ? 1u : 0u;
  return seen;
}

void CheckHead(const GgufHead& head, uint64_t file_bytes) {
  size_t seen = 0;
  for (const GgufKey& key : head.keys) {
    CHECK(head.Find(key.name) == &key.value) << "a key isn't found";
    seen += Walk(key.value);
  }
  for (const GgufTensor& tensor : head.tensors) {
    CHECK(tensor.offset >= head.data_offset && tensor.offset <= file_bytes &&
          tensor.bytes <= file_bytes - tensor.offset)
        << "a tensor lies outside the file";
    CHECK(tensor.bytes == static_cast<uint64_t>(
                              tensor.rows() * fak::tensor::RowBytes(tensor.type, tensor.shape[0])))
        << "wrong size";
  }
  static volatile size_t sink = 0;
  sink = sink + seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  uint64_t wanted = 0;
  const Result<GgufHead> head = fak::tensor::ParseGgufHead(bytes, size, &wanted);
  CHECK(wanted == 0) << "wants more than the file";
  if (head) {
    CheckHead(*head, size);
  }
  const Result<GgufHead> of_half = fak::tensor::ParseGgufHead(bytes.first(size / 2), size, &wanted);
  if (wanted != 0) {
    CHECK(!of_half && wanted > size / 2 && wanted <= size) << "wants " << wanted << " of " << size;
  } else {
    CHECK(of_half.has_value() == head.has_value()) << "a prefix gives another answer";
  }
  return 0;
}

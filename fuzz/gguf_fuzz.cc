// fuzz: links fak_model fak_tensor
// Parses bytes as the head of a GGUF file, walks all that came out, and holds the parser to its
// word about prefixes: one that it doesn't ask more for gives the answer that the whole file gives.
// What is a whole file then goes the way of a model: its shape is within bounds, and its card has a
// tokenizer that works.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include "base/limits.h"
#include "base/result.h"
#include "base/test_folder.h"
#include "model/card.h"
#include "model/shape.h"
#include "tensor/gguf.h"
#include "tensor/gguf_head.h"
#include "text/tokenizer.h"

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

void CheckShape(const fak::tensor::GgufFile& file) {
  namespace limits = fak::limits;
  const auto shape = fak::model::ReadShape(file);
  if (!shape) {
    CHECK(!shape.error().detail.empty());
    return;
  }
  CHECK(!shape->layers.empty() && shape->layers.size() <= limits::kLayersMax);
  CHECK(shape->width >= 1 && shape->width <= limits::kEmbeddingMax);
  CHECK(shape->vocabulary >= 1 && shape->vocabulary <= limits::kVocabularyMax);
  CHECK(shape->context >= 1 && shape->context <= limits::kContextMax);
  CHECK(shape->experts_used <= shape->experts && shape->experts <= limits::kExpertsMax);
  for (const fak::model::LayerShape& layer : shape->layers) {
    CHECK(layer.heads.kv_heads >= 1 && layer.heads.q_heads <= limits::kHeadsMax);
    CHECK(layer.heads.q_heads % layer.heads.kv_heads == 0);
    CHECK(layer.heads.dim >= 2 && layer.heads.dim <= limits::kHeadDimMax);
    CHECK(layer.feed_forward <= limits::kFeedForwardMax);
  }
}

void CheckCard(const fak::tensor::GgufFile& file) {
  const auto card = fak::model::MakeCard(file, std::nullopt);
  if (!card) {
    CHECK(!card.error().detail.empty());
    return;
  }
  const fak::text::Tokenizer& tokenizer = *(*card)->tokenizer;
  for (const int32_t id :
       tokenizer.Encode("<s>Hello,  w\xC3\xB6rld 12\n", {.parse_special = true})) {
    CHECK(id >= 0 && id < tokenizer.vocab_size());
  }
  CHECK((*card)->context_length >= 0);
}

void CheckModel(std::span<const uint8_t> bytes) {
  static const fak::TestFolder folder;
  static const std::string path = folder.Path("model.gguf");
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const auto file = fak::tensor::GgufFile::Open(path);
  if (file) {  // no part of a split model
    CheckShape(**file);
    CheckCard(**file);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  uint64_t wanted = 0;
  const Result<GgufHead> head = fak::tensor::ParseGgufHead(bytes, size, &wanted);
  CHECK(wanted == 0) << "wants more than the file";
  if (head) {
    CheckHead(*head, size);
    CheckModel(std::span(data, size));
  }
  const Result<GgufHead> of_half = fak::tensor::ParseGgufHead(bytes.first(size / 2), size, &wanted);
  if (wanted != 0) {
    CHECK(!of_half && wanted > size / 2 && wanted <= size) << "wants " << wanted << " of " << size;
  } else {
    CHECK(of_half.has_value() == head.has_value()) << "a prefix gives another answer";
  }
  return 0;
}

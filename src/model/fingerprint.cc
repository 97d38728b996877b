#include "model/fingerprint.h"

#include <algorithm>
#include <string>
#include <vector>

namespace fak::model {
namespace {

constexpr uint64_t kSampleBytes = 4096;
constexpr uint64_t kSamples = 4;  // of a tensor, evenly spread

void Append(std::string& out, std::string_view text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}

// How a file was split says nothing of the model.
bool IsAboutSplit(const tensor::GgufKey& key) {
  return key.name.starts_with("split.");
}

}  // namespace

Result<Hash128> Fingerprint(const tensor::GgufFile& file) {
  std::string facts;
  for (const tensor::GgufKey& key : file.keys()) {
    if (!IsAboutSplit(key)) {
      Append(facts, key.name);
      Append(facts, BytesOf(key.value.bytes));
    }
  }
  uint64_t data = 0;
  std::vector<std::byte> sample(kSampleBytes);
  for (const tensor::GgufTensor& tensor : file.tensors()) {
    Append(facts, tensor.name);
    facts += std::to_string(static_cast<uint32_t>(tensor.type));
    for (const int64_t length : tensor.shape) {
      facts += "," + std::to_string(length);
    }
    for (uint64_t i = 0; i < kSamples; ++i) {
      const std::span<std::byte> part(sample.data(), std::min(kSampleBytes, tensor.bytes));
      TRY(file.Read(tensor, (tensor.bytes - part.size()) / (kSamples - 1) * i, part));
      data = Xxh3(BytesOf(std::span<const std::byte>(part)), data);
    }
  }
  return Xxh3Wide(facts, data);
}

}  // namespace fak::model

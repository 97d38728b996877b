// main() of a fuzz target that is built without libFuzzer: runs every seed of the given folder,
// then the seed cut short and the seed with damaged bytes, the same ones in every run. Each input
// is a heap block of its exact size, so that a sanitizer sees one byte too far.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Bounds the work for one seed: a corpus is a test of seconds, exploring is libFuzzer's job.
constexpr size_t kVariantsMax = 256;
constexpr size_t kVariantBytesMax = 64 * 1024;

size_t inputs = 0;

void RunOne(std::span<const uint8_t> bytes) {
  auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  ++inputs;
}

void RunVariants(const std::vector<uint8_t>& seed) {
  const size_t step = std::max<size_t>(1, seed.size() / kVariantsMax);
  for (size_t size = 0; size < seed.size(); size += step) {
    RunOne(std::span(seed).first(size));
  }
  std::minstd_rand random;
  std::vector<uint8_t> damaged = seed;
  for (size_t at = 0; at < seed.size(); at += step) {
    damaged[at] = static_cast<uint8_t>(random() >> 8);
    RunOne(damaged);
    damaged[at] = seed[at];
  }
}

std::vector<uint8_t> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
  size_t seeds = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) {
        continue;
      }
      // Said first and unbuffered: a crash must name its seed.
      std::fprintf(stderr, "%s\n", entry.path().c_str());
      const std::vector<uint8_t> seed = ReadFile(entry.path());
      RunOne(seed);
      if (seed.size() <= kVariantBytesMax) {
        RunVariants(seed);
      }
      ++seeds;
    }
  }
  std::printf("%zu seeds, %zu inputs\n", seeds, inputs);
  return seeds == 0 ? 1 : 0;
}

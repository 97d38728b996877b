// bench: links fak_text fak_base
// What encoding and decoding cost a byte, over small vocabularies that merge as deep as real ones.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "text/detokenizer.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

namespace fak::text {
namespace {

// Words of one to eight letters with blanks, numbers and line ends between, as prose has them.
std::string Prose(size_t bytes) {
  std::minstd_rand random(1);
  std::string text;
  while (text.size() < bytes) {
    for (size_t length = 1 + random() % 8; length > 0; --length) {
      text += "abcdest"[random() % 7];
    }
    text += random() % 12 == 0 ? ".\n" : random() % 9 == 0 ? " 1 " : " ";
  }
  return text;
}

void Encode(benchmark::State& state, Vocabulary vocabulary) {
  const auto tokenizer = *Tokenizer::Create(std::move(vocabulary));
  const std::string text = Prose(64 * 1024);
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Encode(text, {.parse_special = true}));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK_CAPTURE(Encode, smollm, SampleBpe("smollm"));
BENCHMARK_CAPTURE(Encode, llama3, SampleBpe("llama-bpe"));
BENCHMARK_CAPTURE(Encode, spm, SampleSpm());

void EncodeOneLongWord(benchmark::State& state) {
  const auto tokenizer = *Tokenizer::Create(SampleBpe("qwen2"));
  const std::string text(1 << 20, 'a');
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Encode(text));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(EncodeOneLongWord);

void Detokenize(benchmark::State& state) {
  const auto tokenizer = *Tokenizer::Create(SampleBpe("qwen2"));
  const auto ids = tokenizer->Encode(Prose(64 * 1024));
  std::string out;
  for (auto _ : state) {
    Detokenizer detokenizer(*tokenizer);
    out.clear();
    for (const int32_t id : ids) {
      detokenizer.Feed(id, out);
    }
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids.size()));
}
BENCHMARK(Detokenize);

}  // namespace
}  // namespace fak::text

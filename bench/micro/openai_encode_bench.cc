// bench: links fak_wire fak_base
// What turning one token into the bytes of a chunk costs.
#include <benchmark/benchmark.h>

#include <string>

#include "wire/event.h"
#include "wire/openai_encode.h"
#include "wire/turn.h"

namespace fak::wire {
namespace {

void EncodeTokens(benchmark::State& state) {
  Turn turn;
  turn.stream = true;
  OpenAiStream stream(
      {.id = "chatcmpl-0123456789abcdef", .model = "smollm2", .created = 1'700'000'000}, turn);
  std::string out;
  stream.Encode(Started{}, out);
  const Event event = TextDelta{.choice = 0, .text = " token", .tokens = {42}, .logprobs = {}};
  constexpr size_t kTokens = 256;
  for (auto _ : state) {
    for (size_t i = 0; i < kTokens; ++i) {
      out.clear();
      stream.Encode(event, out);
      benchmark::DoNotOptimize(out);
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kTokens));
}
BENCHMARK(EncodeTokens);

}  // namespace
}  // namespace fak::wire

// bench: links fak_wire fak_base
// What splitting a stream into events costs: chunks of chat completions, whole and cut small.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "wire/sse.h"

namespace fak::wire {
namespace {

constexpr size_t kEvents = 256;

std::string Stream() {
  std::string stream;
  for (size_t i = 0; i < kEvents; ++i) {
    AppendSseData(stream, R"({"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk",)"
                          R"("created":1700000000,"model":"smollm2","choices":[{"index":0,)"
                          R"("delta":{"content":" token"},"finish_reason":null}]})");
  }
  return stream;
}

void Split(benchmark::State& state) {
  const std::string stream = Stream();
  const auto piece = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    SseSplitter splitter;
    size_t events = 0;
    for (std::string_view rest = stream; !rest.empty();
         rest.remove_prefix(std::min(piece, rest.size()))) {
      benchmark::DoNotOptimize(
          splitter.Feed(rest.substr(0, piece), [&](const SseEvent&) { ++events; }));
    }
    benchmark::DoNotOptimize(events);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * stream.size()));
}
BENCHMARK(Split)->ArgName("piece")->Arg(16 * 1024)->Arg(100);

void Append(benchmark::State& state) {
  const std::string data(180, 'x');
  std::string out;
  for (auto _ : state) {
    out.clear();
    for (size_t i = 0; i < kEvents; ++i) {
      AppendSseData(out, data);
    }
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kEvents));
}
BENCHMARK(Append);

}  // namespace
}  // namespace fak::wire

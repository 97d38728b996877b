// bench: links fak_wire fak_base
// What taking chunked framing off costs: a stream of small chunks, as engines send tokens.
#include <benchmark/benchmark.h>

#include <string>
#include <string_view>

#include "wire/http_body.h"

namespace fak::wire {
namespace {

std::string Chunked(size_t chunks, size_t bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string body;
  for (size_t i = 0; i < chunks; ++i) {
    body += kHex[bytes / 256 % 16];
    body += kHex[bytes / 16 % 16];
    body += kHex[bytes % 16];
    body += "\r\n" + std::string(bytes, 'x') + "\r\n";
  }
  return body + "0\r\n\r\n";
}

void DecodeChunked(benchmark::State& state) {
  const std::string body = Chunked(256, static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    HttpBodyDecoder decoder(HttpFraming::kChunked, 0);
    size_t content = 0;
    benchmark::DoNotOptimize(
        decoder.Feed(body, [&](std::string_view piece) { content += piece.size(); }));
    benchmark::DoNotOptimize(content);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * body.size()));
}
BENCHMARK(DecodeChunked)->ArgName("chunk")->Arg(200)->Arg(4000);

}  // namespace
}  // namespace fak::wire

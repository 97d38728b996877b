// bench: links fak_kv fak_wire fak_base
// What reading and writing a batch of KV events costs: 64 blocks of 16 tokens stored at once, and
// 64 removed.
#include <benchmark/benchmark.h>

#include <numeric>
#include <string>

#include "kv/event_codec.h"

namespace fak::kv {
namespace {

wire::KvEventBatch Batch() {
  wire::KvEventBatch batch;
  batch.time_s = 1795958904.25;
  wire::KvEvent& stored = batch.events.emplace_back();
  stored.block_size = 16;
  for (uint64_t i = 1; i <= 64; ++i) {
    stored.block_hashes.push_back(i * 0x9e3779b97f4a7c15);
  }
  stored.tokens.resize(1024);
  std::iota(stored.tokens.begin(), stored.tokens.end(), 500);
  wire::KvEvent& removed = batch.events.emplace_back();
  removed.kind = wire::KvEvent::Kind::kRemoved;
  removed.block_hashes = batch.events.front().block_hashes;
  return batch;
}

void Decode(benchmark::State& state) {
  const std::string payload = EncodeKvEvents(Batch());
  for (auto _ : state) {
    benchmark::DoNotOptimize(DecodeKvEvents(payload));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * payload.size()));
}
BENCHMARK(Decode);

void Encode(benchmark::State& state) {
  const wire::KvEventBatch batch = Batch();
  for (auto _ : state) {
    benchmark::DoNotOptimize(EncodeKvEvents(batch));
  }
}
BENCHMARK(Encode);

}  // namespace
}  // namespace fak::kv

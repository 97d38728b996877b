// bench: links fak_ride fak_metrics fak_wire fak_base
// What passing an engine's chunk on costs beyond reading and writing sockets: split, parsed,
// understood, measured, encoded. An answer of 100 chunks of vLLM's shape, as each is read alone.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "metrics/serving.h"
#include "ride/relay.h"
#include "ride/request_meter.h"
#include "wire/openai_encode.h"

namespace fak::ride {
namespace {

constexpr int kChunks = 100;

class Encoding final : public driver::EventSink {
 public:
  explicit Encoding(const wire::Turn& turn) : stream_({"id", "m", 0}, turn) {}
  void OnEvent(wire::Event&& event) noexcept override { stream_.Encode(event, bytes_); }
  void EndBatch() noexcept override {
    benchmark::DoNotOptimize(bytes_.data());
    bytes_.clear();
  }

 private:
  wire::OpenAiStream stream_;
  std::string bytes_;
};

std::vector<std::string> Chunks() {
  std::vector<std::string> chunks;
  for (int i = 1; i <= kChunks; ++i) {
    const std::string end = i == kChunks ? R"("stop","stop_reason":null})" : "null}";
    chunks.push_back(
        R"(data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",)"
        R"("created":1795975224,"model":"smollm2","choices":[{"index":0,"delta":{"content":" token"},)"
        R"("logprobs":null,"finish_reason":)" +
        end + "]}\n\n");
  }
  chunks.emplace_back("data: [DONE]\n\n");
  return chunks;
}

void RelayChat(benchmark::State& state) {
  const std::vector<std::string> chunks = Chunks();
  auto turn = std::make_shared<wire::Turn>();
  turn->stream = true;
  driver::Prepared prepared;
  prepared.turn = turn;
  metrics::Registry registry;
  const auto emitter = registry.MakeEmitter({.worker = "w", .engine = "vllm", .model = "m"});
  const auto pass = [&] {
    auto meter = std::make_shared<RequestMeter>(std::make_shared<Encoding>(*turn), emitter,
                                                prepared, Clock::Real(), [] {});
    Relay relay(std::move(meter), {.streamed = true});
    for (const std::string& chunk : chunks) {
      relay.BeginBatch();
      relay.Feed(chunk);
      relay.EndBatch();
    }
    return relay.succeeded();
  };
  if (!pass()) {  // which also makes the metrics' rows
    state.SkipWithError("the answer isn't whole");
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(pass());
  }
  state.SetItemsProcessed(state.iterations() * kChunks);
}
BENCHMARK(RelayChat);

}  // namespace
}  // namespace fak::ride

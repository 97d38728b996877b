// The rule that stands for SGLang's router in the simulation, request by request, for
// tests/sim/beside_sglang_router. usage: sglang-rule REPLICAS THRESHOLD. Reads lines: "place ID..."
// of a prompt's blocks, and "end N" of the request that was placed as the N-th from 0 on. Prints
// where each was placed.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "perf/route_baselines.h"

namespace {

using namespace fak;  // NOLINT(google-build-using-namespace)

perf::TraceRequest RequestOf(std::string_view ids) {
  perf::TraceRequest request;
  uint64_t key = 0;
  for (const std::string_view id : Split(ids, ' ')) {
    key = Xxh3(id, key);
    request.keys.push_back(key);
  }
  request.prompt_tokens = static_cast<int64_t>(request.keys.size()) * perf::kTraceBlockTokens;
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  const auto replicas = argc == 3 ? ParseUint(argv[1]) : std::nullopt;
  const auto threshold = argc == 3 ? ParseFloat(argv[2]) : std::nullopt;
  if (!replicas || *replicas == 0 || *replicas > 256 || !threshold) {
    std::fprintf(stderr, "usage: sglang-rule REPLICAS THRESHOLD\n");
    return 2;
  }
  const auto placer = perf::MakeSglangPlacer({.cache_threshold = *threshold});
  std::vector<fleet::ReplicaView> views(*replicas);
  std::vector<size_t> placed;
  for (std::string line; std::getline(std::cin, line);) {
    const auto parts = Cut(line, " ");
    const auto ended = parts && parts->first == "end" ? ParseUint(parts->second) : std::nullopt;
    if (ended && *ended < placed.size()) {
      --views[placed[*ended]].in_flight;
    } else if (parts && parts->first == "place") {
      placed.push_back(placer->Place(RequestOf(parts->second), views));
      ++views[placed.back()].in_flight;
      std::printf("%zu\n", placed.back());
    } else {
      std::fprintf(stderr, "sglang-rule: what is \"%s\"?\n", line.c_str());
      return 1;
    }
  }
  return 0;
}

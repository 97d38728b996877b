// fuzz: links fak_perf fak_base
// A trace, Mooncake's or Azure's, gives requests in the order of their times whose blocks are those
// of their prompts, or an error that says where.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "perf/route_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto trace =
      fak::perf::ParseRouteTrace({reinterpret_cast<const char*>(data), size}, "trace");
  if (!trace) {
    CHECK(trace.error().detail.starts_with("trace:")) << trace.error().detail;
    return 0;
  }
  CHECK(!trace->requests.empty() && trace->requests.front().at_us == 0);
  int64_t before_us = 0;
  size_t blocks = 0;
  for (const fak::perf::TraceRequest& request : trace->requests) {
    CHECK(request.at_us >= before_us);
    before_us = request.at_us;
    CHECK(request.prompt_tokens >= 1 && request.output_tokens >= 1);
    const auto keys = static_cast<int64_t>(request.keys.size());
    CHECK((keys - 1) * fak::perf::kTraceBlockTokens < request.prompt_tokens);
    CHECK(keys * fak::perf::kTraceBlockTokens >= request.prompt_tokens);
    CHECK(request.session > 0);
    blocks += request.keys.size();
  }
  CHECK(blocks <= fak::limits::kTraceBlocksMax);
  CHECK(trace->new_tokens() >= 1 && trace->new_tokens() <= trace->prompt_tokens());
  CHECK(trace->duration_us() >= 1);
  return 0;
}

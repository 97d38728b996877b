#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// Traces of requests that routing policies are compared on. Pure functions, any thread.
namespace fak::perf {

// Tokens a block of a trace has, as Mooncake's hash_ids count them.
inline constexpr int64_t kTraceBlockTokens = 512;

struct TraceRequest {
  int64_t at_us = 0;  // since the trace's first request
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;  // at least 1
  // One a block of the prompt, the last one maybe partial; each stands for all before it too.
  std::vector<uint64_t> keys;
  // What it goes on with: the same number for requests of one conversation.
  uint64_t session = 0;
};

struct RouteTrace {
  std::vector<TraceRequest> requests;  // in the order of their times

  int64_t prompt_tokens() const;
  // Of them, those that a cache which never forgets would not have had.
  int64_t new_tokens() const;
  int64_t duration_us() const;  // at least 1
};

// Reads a trace in one of two forms, told apart by how it begins:
//   Mooncake   a JSON object a line: timestamp (ms), input_length, output_length, hash_ids of
//   blocks
//              of 512 tokens (github.com/kvcache-ai/Mooncake, FAST25-release)
//   Azure      TIMESTAMP,ContextTokens,GeneratedTokens (Azure/AzurePublicDataset, LLM inference);
//              it says nothing of contents, so no two requests share a block
// A request continues the session of the last one from which it has more than half of its blocks;
// traces don't say. Errors start with "name:line:". kInvalidArgument: neither form, a value that is
// missing or out of range, no request. kPayloadTooLarge: limits::kTraceBlocksMax.
[[nodiscard]] Result<RouteTrace> ParseRouteTrace(std::string_view text, const std::string& name);
// The same of a file of at most limits::kTextInputBytesMax.
[[nodiscard]] Result<RouteTrace> ReadRouteTrace(const std::string& path);

}  // namespace fak::perf

// fuzz: links fak_wire fak_base
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "wire/openai_decode.h"

// Request bodies: whatever parses is decoded as both surfaces; errors name what is wrong, and what
// is decoded keeps to the bounds that the engine relies on.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const fak::Result<fak::Json> document = fak::ParseJson(text);
  if (!document) {
    return 0;
  }
  for (const auto& turn :
       {fak::wire::DecodeChatRequest(*document), fak::wire::DecodeCompletionRequest(*document)}) {
    if (!turn) {
      if (turn.error().detail.empty()) {
        std::abort();
      }
      continue;
    }
    if (turn->n < 1 || turn->sampling.min_tokens < 0 || turn->sampling.logprobs > 20 ||
        (turn->sampling.temperature && !(*turn->sampling.temperature >= 0.0f))) {
      std::abort();
    }
  }
  return 0;
}

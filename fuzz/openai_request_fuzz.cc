// fuzz: links fak_wire fak_base
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/limits.h"
#include "base/result.h"
#include "wire/openai_decode.h"
#include "wire/passed.h"

namespace {

using fak::Json;
using fak::Result;
using fak::wire::Surface;
using fak::wire::Turn;

// Errors say what is wrong, and what is decoded keeps to the bounds that the engine relies on.
void CheckTurn(const Result<Turn>& turn) {
  if (!turn) {
    CHECK(!turn.error().detail.empty());
    return;
  }
  CHECK(turn->n >= 1 && turn->n <= fak::limits::kChoicesMax);
  CHECK(turn->prompts.size() <= fak::limits::kPromptsMax);
  CHECK(turn->cache_salt.size() <= fak::limits::kCacheSaltBytesMax);
  CHECK(turn->sampling.min_tokens >= 0);
  CHECK(turn->sampling.logprobs <= fak::limits::kTopLogprobsMax);
  CHECK(!turn->sampling.temperature || *turn->sampling.temperature >= 0.0f);
}

}  // namespace

// Request bodies: whatever parses is decoded as the body of every surface, and of /tokenize.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Json> document = fak::ParseJson(text);
  if (!document) {
    return 0;
  }
  CheckTurn(fak::wire::DecodeChatRequest(*document));
  CheckTurn(fak::wire::DecodeCompletionRequest(*document));
  for (const Surface surface : {Surface::kMessages, Surface::kResponses, Surface::kEmbedding,
                                Surface::kCountTokens, Surface::kGenerate, Surface::kTemplate}) {
    const Result<Turn> turn = fak::wire::DecodePassedRequest(*document, surface);
    CheckTurn(turn);
    CHECK(!turn || (turn->surface == surface && !turn->prompts.empty()));
  }
  const auto tokenize = fak::wire::DecodeTokenizeRequest(*document);
  if (!tokenize) {
    CHECK(!tokenize.error().detail.empty());
  } else if (tokenize->chat) {
    CheckTurn(*tokenize->chat);
  }
  return 0;
}

#include <string>
#include <utility>

#include "gateway/gateway.h"
#include "kv/unit_keys.h"

// What a request takes of its tenant's limits.
namespace fak::gateway {

std::optional<Error> Gateway::BeginShare(Call& call, bool streams) {
  const auto over = limits_.Begin(call.context.tenant, streams, call.share);
  call.limited = over || call.share != nullptr;
  if (!over) {
    return std::nullopt;
  }
  emitter_->CountLimitRefusal(over->limit);
  return over->error;
}

std::optional<Error> Gateway::ReserveTokens(Call& call, const driver::Prepared& prepared) {
  if (call.share == nullptr) {
    return std::nullopt;
  }
  const auto over = call.share->Reserve(PromptTokensOf(prepared), CompletionTokensMax(prepared));
  if (!over) {
    return std::nullopt;
  }
  emitter_->CountLimitRefusal(over->limit);
  return over->error;
}

// What nobody counted is taken by the text that came. A request that came to nothing took nothing;
// one whose client left took its prompt at least.
void Gateway::EndShare(Call& call, const ExchangeEnd& end) {
  constexpr int kClientGone = 499;
  constexpr int64_t kBytesPerToken = kv::kUnitBytes / kv::kUnitTokens;
  const auto share = std::exchange(call.share, nullptr);
  if (share == nullptr || (end.status >= 400 && end.status != kClientGone)) {
    return;
  }
  const int64_t prompt =
      end.usage.prompt_tokens >= 0 ? end.usage.prompt_tokens : share->prompt_tokens();
  int64_t completion = end.usage.completion_tokens;
  if (completion < 0 && (end.text_bytes > 0 || end.status == kClientGone)) {
    completion = (end.text_bytes + kBytesPerToken - 1) / kBytesPerToken;
  }
  share->Settle(prompt, completion);
}

}  // namespace fak::gateway

#include "ride/chunk_edits.h"

#include <algorithm>
#include <utility>

#include "ride/json_reads.h"

namespace fak::ride {
namespace {

constexpr char kTokenIds[] = "token_ids";
constexpr char kPromptTokenIds[] = "prompt_token_ids";

}  // namespace

ChunkEdits::ChunkEdits(const Adapter& adapter, const driver::Prepared& prepared) {
  if (!prepared.for_resumption || adapter.continues == nullptr || !adapter.continues(prepared)) {
    return;
  }
  const driver::Continuation* so_far = prepared.maybe_continuation.get();
  const auto hide = [&](const char* name) {
    hidden_.push_back({name, adapter.unasked_token_ids.empty()
                                 ? std::nullopt
                                 : std::optional<std::string>(adapter.unasked_token_ids)});
  };
  if (!prepared.turn->return_token_ids) {
    hide(kTokenIds);
  }
  if (!prepared.turn->return_token_ids || so_far != nullptr) {
    hide(kPromptTokenIds);  // of the stream's first chunk, which the client has then
  }
  if (so_far != nullptr) {
    head_ = so_far->head;
    said_tokens_ = adapter.continues_exactly ? 0 : static_cast<int32_t>(so_far->tokens.size());
  }
}

std::optional<std::string> ChunkEdits::WithWholeUsage(std::string_view raw,
                                                      const AnswerDocument& document) const {
  if (!document.usage.is_object()) {
    return std::nullopt;
  }
  Json usage = document.usage.Copy();
  const int32_t prompt = std::max(0, IntAt(document.usage, "prompt_tokens", 0) - said_tokens_);
  usage.Set("prompt_tokens", prompt);
  usage.Set("completion_tokens", IntAt(document.usage, "completion_tokens", 0) + said_tokens_);
  if (const Json* given = usage.Find("prompt_tokens_details");
      given != nullptr && given->is_object()) {
    Json details = *given;
    const int32_t cached =
        IntAt(ObjectAt(document.usage, "prompt_tokens_details"), "cached_tokens", -1);
    if (cached > prompt) {
      details.Set("cached_tokens", prompt);
      usage.Set("prompt_tokens_details", std::move(details));
    }
  }
  const wire::MemberEdit edit{"usage", usage.Dump()};
  return wire::EditMembers(raw, {&edit, 1});
}

std::string ChunkEdits::Shown(std::string_view raw) const {
  std::string out(raw);
  if (!hidden_.empty() && raw.find(kTokenIds) != std::string_view::npos) {
    out = wire::EditPresent(wire::EditListed(out, "choices", hidden_), hidden_);
  }
  return head_.empty() ? out : wire::EditPresent(out, head_);
}

}  // namespace fak::ride

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "driver/prepared.h"
#include "gateway/keys.h"
#include "text/model_card.h"
#include "wire/http_headers.h"
#include "wire/turn.h"

namespace fak::gateway {

// What of a request is neither in its turn nor in its document.
struct RequestContext {
  std::string request_id;  // unique here
  std::string shown_id;    // the client's own, where it is usable
  std::string traceparent;
  Tenant tenant;
  int64_t arrival_ns = 0;  // Clock::NowNs
  std::optional<int64_t> deadline_ns;
  int64_t wall_ns = 0;  // Clock::WallNs, for templates that show the date
  // For ridden engines: the document's bytes, and headers without credentials.
  std::shared_ptr<const std::string> maybe_body;
  wire::HttpHeaders client_headers;
};

// What every salt of a tenant begins with, and no salt of another.
std::string TenantSalt(const std::string& tenant);
// The tenant's name and the client's salt in one; caches never cross it. A hash of the client's
// part where the two together are longer than a salt may be.
std::string FoldSalt(const std::string& tenant, const std::string& salt);

// Renders and tokenises a turn with the model's card. maybe_card null: a ridden model whose
// tokenizer we don't have; prompts then have no tokens, and a chat's text is its messages as JSON.
// context_length: of the engine, in tokens; 0: not known.
// kInvalidArgument: the template refused the messages (its own words). kUnsupported: the model has
// no template, or it needs something we don't have, by name. kContextTooLong: a glance shows that
// the prompt can't fit, so it isn't encoded; one that seems to fit may still be refused by the
// engine. Costs milliseconds for long prompts: not on an event loop.
[[nodiscard]] Result<std::shared_ptr<const driver::Prepared>> Prepare(
    std::shared_ptr<const wire::Turn> turn, std::shared_ptr<const Json> document,
    const text::ModelCard* maybe_card, int32_t context_length, const RequestContext& context);

// The rendered and tokenised messages of a chat turn alone (also for /tokenize, which counts the
// tokens of any length). Errors as above.
[[nodiscard]] Result<driver::PreparedPrompt> PrepareChat(const wire::Turn& turn,
                                                         const text::ModelCard& card,
                                                         int32_t context_length, int64_t wall_ns);

}  // namespace fak::gateway

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "driver/prepared.h"
#include "gateway/keys.h"
#include "wire/http_headers.h"

namespace fak::gateway {

// A request's tokens, before they are counted: those of its prompts where they were tokenised,
// else a quarter of the bytes of its texts (tools and system prompts too), and kBinaryTokens for
// each picture or sound in it. 0 where nothing is generated or embedded.
inline constexpr int64_t kBinaryTokens = 1000;
int64_t PromptTokensOf(const driver::Prepared& prepared);
// The most that it lets the answers take, all together; nullopt: it doesn't say.
std::optional<int64_t> CompletionTokensMax(const driver::Prepared& prepared);

// What each tenant may still use of the limits of its keys: requests and streams open at once, and
// two buckets, of requests and of tokens, that hold a minute's worth and fill again evenly. A place
// a tenant that has limits, and no more. Any thread; a lock of the tenant's own, twice a request.
class RateLimits {
 public:
  RateLimits(const std::vector<Tenant>& tenants, const Clock& clock);

  // What was asked for is over a limit.
  struct Refusal {
    Error error;             // kRateLimited
    std::string_view limit;  // "concurrency", "streams", "requests" or "tokens"
  };

  // What one request has of it. Its places are given back with it, and so are the tokens that it
  // was lent, where Settle() wasn't called. One thread at a time.
  class Share {
   public:
    ~Share();
    // Lends it tokens: those of the prompt and, for the answer, as many as those of the tenant took
    // lately, within completion_max. Where they aren't there, it isn't counted as a request either.
    std::optional<Refusal> Reserve(int64_t prompt_tokens, std::optional<int64_t> completion_max);
    // It took so many in the end. completion_tokens < 0: nobody knows, and what it was lent for
    // the answer is what it took.
    void Settle(int64_t prompt_tokens, int64_t completion_tokens);
    int64_t prompt_tokens() const { return prompt_tokens_; }  // that it was lent

   private:
    friend class RateLimits;
    struct Ledger;
    Share(std::shared_ptr<Ledger> ledger, const Clock& clock, bool streams)
        : ledger_(std::move(ledger)), clock_(clock), streams_(streams) {}
    const std::shared_ptr<Ledger> ledger_;
    const Clock& clock_;
    const bool streams_;
    bool counted_ = true;  // as a request
    bool settled_ = false;
    int64_t prompt_tokens_ = 0;
    int64_t completion_tokens_ = 0;
  };

  // A request of that tenant begins. Null: the tenant has no limits.
  std::optional<Refusal> Begin(const Tenant& tenant, bool streams, std::shared_ptr<Share>& share);
  // x-ratelimit-limit-requests and its like, as OpenAI has them; of the limits that there are.
  wire::HttpHeaders HeadersFor(const Tenant& tenant) const;

 private:
  const Clock& clock_;
  std::map<std::string, std::shared_ptr<Share::Ledger>, std::less<>> ledgers_;  // by tenant
};

}  // namespace fak::gateway

#include "gateway/rate_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/strings.h"
#include "kv/unit_keys.h"

namespace fak::gateway {
namespace {

constexpr double kSecondsPerMinute = 60;
// Beyond what a bucket holds: an engine that miscounts shuts nobody out for longer.
constexpr double kDebtMinutesMax = 60;
constexpr int64_t kUsualTokens = 256;  // of an answer, before any is known

bool IsBinary(std::string_view key, std::string_view text) {
  return text.starts_with("data:") || key == "data" || key == "b64_json";
}

// Bytes of the texts in it, by tokens' worth. Depth: kJsonDepthMax, of the parser.
int64_t BytesIn(const Json& value, std::string_view key) {
  constexpr int64_t kBytes = kv::kUnitBytes / kv::kUnitTokens;
  if (value.is_string()) {
    return IsBinary(key, value.string()) ? kBinaryTokens * kBytes
                                         : static_cast<int64_t>(value.string().size());
  }
  int64_t bytes = 0;
  if (value.is_array()) {
    for (const Json& each : value.array()) {
      bytes += each.is_number() ? kBytes : BytesIn(each, key);  // a token id
    }
  } else if (value.is_object()) {
    for (const auto& [name, each] : value.object()) {
      bytes += BytesIn(each, name);
    }
  }
  return bytes;
}

bool Generates(wire::Surface surface) {
  return surface != wire::Surface::kCountTokens && surface != wire::Surface::kTemplate &&
         surface != wire::Surface::kEmbedding;
}

std::optional<int64_t> IntAt(const Json& document, std::string_view key) {
  const Json* value = document.is_object() ? document.Find(key) : nullptr;
  return value != nullptr && value->is_number() && value->number() >= 0 && value->number() <= 1e9
             ? std::optional(static_cast<int64_t>(value->number()))
             : std::nullopt;
}

// As OpenAI writes them: "6m0s", "8.64s", "17ms".
std::string Duration(double seconds) {
  const auto ms = static_cast<int64_t>(std::ceil(std::max(seconds, 0.0) * 1000));
  if (ms < 1000) {
    return fmt::format("{}ms", ms);
  }
  const int64_t minutes = ms / 60'000;
  const std::string rest = fmt::format("{:g}s", static_cast<double>(ms % 60'000) / 1000);
  return minutes > 0 ? fmt::format("{}m{}", minutes, rest) : rest;
}

// A minute's worth, which fills again evenly.
struct Bucket {
  double most = 0;  // 0: no limit
  double level = 0;

  explicit Bucket(int64_t per_minute)
      : most(static_cast<double>(per_minute)), level(static_cast<double>(per_minute)) {}
  bool bounded() const { return most > 0; }
  void Fill(double seconds) { level = std::min(most, level + seconds * most / kSecondsPerMinute); }
  void Take(double amount) { level = std::max(level - amount, -kDebtMinutesMax * most); }
  double SecondsUntil(double wanted) const {
    return std::max(0.0, (wanted - level) * kSecondsPerMinute / most);
  }
};

void AddHeaders(wire::HttpHeaders& headers, const Bucket& bucket, std::string_view of) {
  if (bucket.bounded()) {
    const auto left = static_cast<int64_t>(std::max(0.0, std::floor(bucket.level)));
    headers.Add(fmt::format("x-ratelimit-limit-{}", of),
                std::to_string(static_cast<int64_t>(bucket.most)));
    headers.Add(fmt::format("x-ratelimit-remaining-{}", of), std::to_string(left));
    headers.Add(fmt::format("x-ratelimit-reset-{}", of),
                Duration(bucket.SecondsUntil(bucket.most)));
  }
}

RateLimits::Refusal Over(std::string_view limit, std::string what, double after_s) {
  const int after = std::max(1, static_cast<int>(std::ceil(after_s)));
  return {Error{Code::kRateLimited, std::move(what), "", 0, after}, limit};
}

}  // namespace

int64_t PromptTokensOf(const driver::Prepared& prepared) {
  const wire::Surface surface = prepared.turn->surface;
  if (!Generates(surface) && surface != wire::Surface::kEmbedding) {
    return 0;
  }
  const auto& prompts = prepared.prompts;
  const bool counted =
      std::all_of(prompts.begin(), prompts.end(), [](const driver::PreparedPrompt& prompt) {
        return !prompt.tokens.empty() || prompt.text.empty();
      });
  int64_t tokens = 0;
  if (counted || prepared.document == nullptr) {
    for (const driver::PreparedPrompt& prompt : prompts) {
      tokens += static_cast<int64_t>(prompt.tokens.size());
    }
    return tokens;
  }
  return BytesIn(*prepared.document, "") * int64_t{kv::kUnitTokens} / int64_t{kv::kUnitBytes};
}

std::optional<int64_t> CompletionTokensMax(const driver::Prepared& prepared) {
  const wire::Turn& turn = *prepared.turn;
  if (!Generates(turn.surface)) {
    return 0;
  }
  std::optional<int64_t> most = turn.sampling.max_tokens;
  if (prepared.document != nullptr && !most) {
    const Json& document = *prepared.document;
    const Json* inner = document.is_object() ? document.Find("sampling_params") : nullptr;
    most = turn.surface == wire::Surface::kMessages    ? IntAt(document, "max_tokens")
           : turn.surface == wire::Surface::kResponses ? IntAt(document, "max_output_tokens")
           : inner != nullptr                          ? IntAt(*inner, "max_new_tokens")
                                                       : std::nullopt;
  }
  const auto answers = static_cast<int64_t>(std::max<size_t>(prepared.prompts.size(), 1)) *
                       std::max<int64_t>(turn.n, 1);
  return most ? std::optional(*most * answers) : std::nullopt;
}

struct RateLimits::Share::Ledger {
  Ledger(const Tenant& its_tenant, int64_t now_ns)
      : tenant(its_tenant.name),
        limits(its_tenant.limits),
        requests(limits.requests_per_minute),
        tokens(limits.tokens_per_minute),
        filled_ns(now_ns) {}

  const std::string tenant;
  const KeyLimits limits;
  std::mutex mutex;  // guards the members below
  Bucket requests;
  Bucket tokens;
  int64_t filled_ns;
  int32_t open = 0;
  int32_t streams = 0;
  double usual = 0;  // tokens of an answer, decayed; 0: not known

  void Fill(int64_t now_ns) {
    const double seconds =
        static_cast<double>(now_ns - filled_ns) / static_cast<double>(kNsPerSecond);
    if (seconds > 0) {
      requests.Fill(seconds);
      tokens.Fill(seconds);
      filled_ns = now_ns;
    }
  }
};

RateLimits::RateLimits(const std::vector<Tenant>& tenants, const Clock& clock) : clock_(clock) {
  for (const Tenant& tenant : tenants) {
    if (tenant.limits != KeyLimits{}) {
      ledgers_.try_emplace(tenant.name, std::make_shared<Share::Ledger>(tenant, clock.NowNs()));
    }
  }
}

std::optional<RateLimits::Refusal> RateLimits::Begin(const Tenant& tenant, bool streams,
                                                     std::shared_ptr<Share>& share) {
  const auto found = ledgers_.find(tenant.name);
  if (found == ledgers_.end()) {
    return std::nullopt;
  }
  constexpr double kAgainS = 1;
  Share::Ledger& ledger = *found->second;
  const KeyLimits& limits = ledger.limits;
  const std::lock_guard lock(ledger.mutex);
  ledger.Fill(clock_.NowNs());
  if (limits.max_concurrency > 0 && ledger.open >= limits.max_concurrency) {
    return Over("concurrency",
                tenant.name + " has as many requests open as it may: " +
                    std::to_string(limits.max_concurrency),
                kAgainS);
  }
  if (streams && limits.max_streams > 0 && ledger.streams >= limits.max_streams) {
    return Over(
        "streams",
        tenant.name + " has as many streams open as it may: " + std::to_string(limits.max_streams),
        kAgainS);
  }
  if (ledger.requests.bounded()) {
    if (ledger.requests.level < 1) {
      return Over("requests",
                  tenant.name + " has made as many requests as it may in a minute: " +
                      std::to_string(limits.requests_per_minute),
                  ledger.requests.SecondsUntil(1));
    }
    ledger.requests.Take(1);
  }
  ++ledger.open;
  ledger.streams += streams ? 1 : 0;
  share = std::shared_ptr<Share>(new Share(found->second, clock_, streams));
  return std::nullopt;
}

wire::HttpHeaders RateLimits::HeadersFor(const Tenant& tenant) const {
  wire::HttpHeaders headers;
  if (const auto found = ledgers_.find(tenant.name); found != ledgers_.end()) {
    Share::Ledger& ledger = *found->second;
    const std::lock_guard lock(ledger.mutex);
    ledger.Fill(clock_.NowNs());
    AddHeaders(headers, ledger.requests, "requests");
    AddHeaders(headers, ledger.tokens, "tokens");
  }
  return headers;
}

std::optional<RateLimits::Refusal> RateLimits::Share::Reserve(
    int64_t prompt_tokens, std::optional<int64_t> completion_max) {
  Ledger& ledger = *ledger_;
  const std::lock_guard lock(ledger.mutex);
  if (!ledger.tokens.bounded() || (prompt_tokens == 0 && completion_max == 0)) {
    settled_ = true;
    return std::nullopt;
  }
  ledger.Fill(clock_.NowNs());
  const int64_t most = ledger.limits.tokens_per_minute;
  const auto uncount = [&] {
    if (std::exchange(counted_, false) && ledger.requests.bounded()) {
      ledger.requests.Take(-1);
      ledger.requests.Fill(0);
    }
  };
  if (prompt_tokens > most) {  // it would never be let through
    uncount();
    return Refusal{
        Error{Code::kRateLimited,
              fmt::format("the prompt has about {} tokens, and {} may use {} in a minute",
                          prompt_tokens, ledger.tenant, most)},
        "tokens"};
  }
  const int64_t usual = ledger.usual > 0 ? std::llround(ledger.usual) : kUsualTokens;
  const int64_t completion = std::min(usual, completion_max.value_or(usual));
  // What is more than a bucket holds would wait for ever.
  const auto wanted = static_cast<double>(std::min(prompt_tokens + completion, most));
  if (ledger.tokens.level < wanted) {
    uncount();
    return Over("tokens",
                fmt::format("{} has used as many tokens as it may in a minute, {}, or nearly so: "
                            "about {} are wanted, {} are left",
                            ledger.tenant, most, static_cast<int64_t>(wanted),
                            static_cast<int64_t>(std::max(0.0, ledger.tokens.level))),
                ledger.tokens.SecondsUntil(wanted));
  }
  prompt_tokens_ = prompt_tokens;
  completion_tokens_ = static_cast<int64_t>(wanted) - prompt_tokens;
  ledger.tokens.Take(wanted);
  return std::nullopt;
}

void RateLimits::Share::Settle(int64_t prompt_tokens, int64_t completion_tokens) {
  constexpr double kKept = 0.95;  // of what was before: about the last 20 answers
  Ledger& ledger = *ledger_;
  const std::lock_guard lock(ledger.mutex);
  if (std::exchange(settled_, true) || !ledger.tokens.bounded()) {
    return;
  }
  if (completion_tokens > 0) {
    const auto took = static_cast<double>(completion_tokens);
    ledger.usual = ledger.usual == 0 ? took : ledger.usual * kKept + took * (1 - kKept);
  }
  const int64_t lent = prompt_tokens_ + completion_tokens_;
  const int64_t took =
      prompt_tokens + (completion_tokens < 0 ? completion_tokens_ : completion_tokens);
  ledger.Fill(clock_.NowNs());
  ledger.tokens.Take(static_cast<double>(took - lent));
  ledger.tokens.Fill(0);  // no more than it holds
}

RateLimits::Share::~Share() {
  if (!settled_) {
    Settle(0, 0);
  }
  const std::lock_guard lock(ledger_->mutex);
  --ledger_->open;
  ledger_->streams -= streams_ ? 1 : 0;
}

}  // namespace fak::gateway

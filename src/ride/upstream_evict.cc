#include <algorithm>
#include <utility>

#include "ride/upstream_driver.h"
#include "ride/upstream_error.h"

// What of "evict this" each engine can do.
namespace fak::ride {

using driver::EvictGuarantee;
using driver::EvictOutcome;
using driver::EvictReport;
using driver::EvictScope;

namespace {

// What is reported where nothing can be done: none, to those who demanded nothing.
Result<EvictReport> Nothing(EvictGuarantee demanded, std::string why) {
  if (demanded != EvictGuarantee::kNone) {
    return Fail(Code::kUnsupported, std::move(why), "guarantee");
  }
  return EvictReport{.guarantee = EvictGuarantee::kNone, .call = std::move(why)};
}

// What would empty the caches of more than those that are meant. Another fak has salts as we have,
// and doesn't know which of them are a tenant's.
std::optional<Error> TooWide(const Adapter& engine, EvictScope scope) {
  if (scope == EvictScope::kTenant) {
    return Error{Code::kUnsupported,
                 std::string(engine.engine) + " can't drop what one tenant has and keep the rest",
                 "tenant"};
  }
  if (scope == EvictScope::kSalt && !engine.evicts_exactly) {
    return Error{
        Code::kUnsupported,
        std::string(engine.engine) + " can't drop what is under one salt and keep the rest",
        "cache_salt"};
  }
  return std::nullopt;
}

// The reports of all calls in one.
Result<EvictReport> ReadReplies(const Adapter& engine, const std::vector<Call>& calls,
                                const Replies& replies, EvictGuarantee demanded) {
  EvictReport report;
  report.guarantee = EvictGuarantee::kExact;
  for (const Call& call : calls) {
    const std::string asked = call.method + " " + call.path;
    const Reply& reply = replies.At(asked);
    if (reply.status == 0) {
      return Fail(Code::kUnavailable, asked + ": " + reply.body);
    }
    TRY_ASSIGN(const EvictReport one, engine.read_evict(reply));
    report.guarantee = std::min(report.guarantee, one.guarantee);
    if (one.blocks) {
      report.blocks = report.blocks.value_or(0) + *one.blocks;
    }
    report.tokens_left = std::max(report.tokens_left, one.tokens_left);
    report.call += (report.call.empty() ? "" : ", ") + asked;
  }
  if (report.guarantee < demanded) {
    return Fail(Code::kUpstreamError, report.call + " gave less than was demanded");
  }
  return report;
}

}  // namespace

void UpstreamDriver::Evict(driver::EvictRequest request,
                           std::function<void(std::vector<EvictOutcome>)> done) {
  if (!MayServe(request.model)) {
    done({});
    return;
  }
  request.model = NameThere(request.model);
  const std::shared_ptr<const Endpoint> known = endpoint();
  const bool salts = known != nullptr && known->adapter->honours_cache_salt;
  const auto answer = [this, salts, done](Result<EvictReport> report) {
    if (!report) {
      report = Fail(WithoutKey(std::move(report).error(), key()));
    }
    done({EvictOutcome{spec_.name, std::move(report), salts}});
  };
  if (known == nullptr || draining_.load()) {
    answer(Fail(Code::kUnavailable, "what runs at upstream " + spec_.name + " isn't known"));
    return;
  }
  const Adapter& engine = *known->adapter;
  if (std::optional<Error> error = TooWide(engine, request.scope)) {
    answer(Fail(*std::move(error)));
    return;
  }
  // Another fak may be native, and says so itself.
  if (request.demanded == EvictGuarantee::kExact && !engine.evicts_exactly) {
    answer(Fail(Code::kUnsupported,
                "exact eviction is a promise of the native engine; " + std::string(engine.engine) +
                    " can't give it",
                "guarantee"));
    return;
  }
  if (engine.evict == nullptr) {
    answer(Nothing(request.demanded,
                   std::string(engine.engine) + " has no call that evicts anything"));
    return;
  }
  Result<std::vector<Call>> calls = engine.evict(*known, request);
  if (!calls) {
    answer(Nothing(request.demanded, calls.error().detail));
    return;
  }
  loop_.Post([this, &engine, answer, calls = *std::move(calls), demanded = request.demanded] {
    Ask(
        engine, calls,
        [&engine, answer, calls, demanded](Result<Replies> replies) {
          if (replies) {
            answer(ReadReplies(engine, calls, *replies, demanded));
          } else {
            answer(Fail(replies.error()));
          }
        },
        [&engine](const Call&, const Reply& reply) { return !engine.read_evict(reply); });
  });
}

}  // namespace fak::ride

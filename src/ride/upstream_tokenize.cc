#include <utility>

#include "base/limits.h"
#include "ride/json_reads.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_error.h"

// An engine that tokenises for us.
namespace fak::ride {

driver::RemoteTokenizer* UpstreamDriver::maybe_tokenizer() {
  const std::shared_ptr<const Endpoint> known = endpoint();
  return known != nullptr && known->Has(Signal::kTokenizer) ? this : nullptr;
}

void UpstreamDriver::Tokenize(std::string /*model*/, std::string text,
                              std::function<void(Result<std::vector<int32_t>>)> done) {
  const Adapter* engine = adapter();
  if (engine == nullptr || engine->tokenize == nullptr || draining_.load()) {
    done(Fail(Code::kUnsupported, "upstream " + spec_.name + " has no tokenizer to ask"));
    return;
  }
  loop_.Post([this, engine, text = std::move(text), done = std::move(done)] {
    const Call call = engine->tokenize(text);
    const std::string asked = call.method + " " + call.path;
    Ask(*engine, {call}, [this, asked, done](Result<Replies> replies) {
      if (!replies) {
        done(Fail(replies.error()));
        return;
      }
      const Reply& reply = replies->At(asked);
      if (reply.status != 200) {
        done(Fail(reply.status == 0 ? Named({Code::kUnavailable, reply.body})
                                    : UpstreamError(reply.status, reply.body, key())));
        return;
      }
      std::vector<int32_t> tokens;
      for (const Json& token : ArrayAt(reply.document, "tokens")) {
        const auto id = token.is_number() ? token.AsInt() : std::nullopt;
        if (!id || *id < 0 || *id >= limits::kVocabularyMax) {
          done(Fail(Code::kUpstreamError, asked + " answered with what are no token ids"));
          return;
        }
        tokens.push_back(static_cast<int32_t>(*id));
      }
      done(std::move(tokens));
    });
  });
}

}  // namespace fak::ride

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "gateway/gateway.h"
#include "gateway/rows.h"
#include "text/tokenizer.h"
#include "wire/fields.h"
#include "wire/openai_decode.h"

// POST /v1/fak/cache/evict: what it asks for, and what became of it at each worker.
namespace fak::gateway {
namespace {

using driver::EvictGuarantee;
using driver::EvictScope;

std::string_view GuaranteeName(EvictGuarantee guarantee) {
  switch (guarantee) {
    case EvictGuarantee::kNone: return "none";
    case EvictGuarantee::kWholePrefix: return "whole_prefix";
    case EvictGuarantee::kExact: return "exact";
  }
  return "none";
}

Result<EvictGuarantee> GuaranteeOf(const std::string& name) {
  for (const EvictGuarantee each :
       {EvictGuarantee::kNone, EvictGuarantee::kWholePrefix, EvictGuarantee::kExact}) {
    if (name == GuaranteeName(each)) {
      return each;
    }
  }
  return Fail(Code::kInvalidArgument, "guarantee: must be none, whole_prefix or exact",
              "guarantee");
}

// What the server knows when it reads the call.
struct Asked {
  const text::ModelCard* maybe_card;
  const KeyRing& keys;
  const Tenant& caller;
  int64_t wall_ns;
};

// A chat, with all that a chat may have beside its messages.
Result<wire::Turn> ChatOf(const Json& document, wire::Fields& fields) {
  TRY_ASSIGN(wire::Turn turn, wire::DecodeChatRequest(document));
  for (const std::string& name : fields.Unknown()) {
    const std::vector<std::string>& strange = turn.unknown_fields;
    if (std::find(strange.begin(), strange.end(), name) == strange.end()) {
      fields.Take(name);
    }
  }
  return turn;
}

// The path that goes. Empty without a card: the engine behind reads the document, or drops all.
Result<std::vector<int32_t>> PathOf(const Json& document, wire::Fields& fields,
                                    const Asked& asked) {
  const Json* ids = fields.Take("token_ids");
  const Json* messages = fields.Take("messages");
  const auto prompt = fields.String("prompt");
  TRY(fields.status());
  if ((ids != nullptr) + (messages != nullptr) + prompt.has_value() != 1) {
    return Fail(Code::kInvalidArgument,
                "the scope prefix needs one of prompt, messages and token_ids", "scope");
  }
  std::vector<int32_t> path;
  if (ids != nullptr) {
    auto tokens = wire::TokenIdsOf(*ids);
    if (!tokens) {
      return Fail(Code::kInvalidArgument, "token_ids: must be a list of token ids", "token_ids");
    }
    path = *std::move(tokens);
  } else if (messages != nullptr) {
    TRY_ASSIGN(const wire::Turn turn, ChatOf(document, fields));
    if (asked.maybe_card != nullptr) {
      TRY_ASSIGN(driver::PreparedPrompt prepared,
                 PrepareChat(turn, *asked.maybe_card, 0, asked.wall_ns));
      path = std::move(prepared.tokens);
    }
  } else if (asked.maybe_card != nullptr) {
    path =
        asked.maybe_card->tokenizer->Encode(*prompt, {.add_special = true, .parse_special = true});
  }
  if (path.empty() && (ids != nullptr || asked.maybe_card != nullptr)) {
    return Fail(Code::kInvalidArgument, "the prefix to evict has no tokens", "scope");
  }
  return path;
}

// Whose caches are meant, into scope and salt.
Status ReadWhose(wire::Fields& fields, const Asked& asked, driver::EvictRequest& request) {
  const std::optional<std::string> tenant = fields.String("tenant");
  const std::optional<std::string> salt = fields.String("cache_salt");
  TRY(fields.status());
  if (tenant && (tenant->empty() || !asked.keys.Has(*tenant))) {
    return Fail(Code::kInvalidArgument, "tenant: no key here is that of \"" + *tenant + "\"",
                "tenant");
  }
  // A salt alone is one of the caller's own, as in every other request.
  request.cache_salt = FoldSalt(tenant.value_or(asked.caller.name), salt.value_or(""));
  if (request.scope == EvictScope::kAll && salt) {
    request.scope = EvictScope::kSalt;
  } else if (request.scope == EvictScope::kAll && tenant) {
    request.scope = EvictScope::kTenant;
    request.cache_salt = TenantSalt(*tenant);
  } else if (request.scope == EvictScope::kAll) {
    request.cache_salt.clear();
  }
  return {};
}

Result<driver::EvictRequest> Decode(std::string_view body, const Asked& asked) {
  TRY_ASSIGN(Json document, ParseJson(body));
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  wire::Fields fields(document);
  driver::EvictRequest request;
  request.model = fields.String("model").value_or("");
  const std::string scope = fields.String("scope").value_or("");
  TRY_ASSIGN(request.demanded, GuaranteeOf(fields.String("guarantee").value_or("none")));
  TRY(fields.status());
  if (scope != "all" && scope != "prefix") {
    return Fail(Code::kInvalidArgument, "scope: must be all or prefix", "scope");
  }
  if (scope == "prefix") {
    request.scope = EvictScope::kPrefix;
    TRY_ASSIGN(request.tokens, PathOf(document, fields, asked));
  }
  for (const char* name : {"prompt", "messages", "token_ids"}) {
    if (scope == "all" && fields.Take(name) != nullptr) {
      return Fail(Code::kInvalidArgument, std::string(name) + ": goes with the scope prefix", name);
    }
  }
  TRY(ReadWhose(fields, asked, request));
  TRY(fields.RefuseUnknown());
  request.maybe_document = std::make_shared<const Json>(std::move(document));
  return request;
}

void WriteOutcome(JsonWriter& json, const driver::EvictOutcome& outcome) {
  BeginRow(json, outcome.worker, outcome.report ? nullptr : &outcome.report.error());
  json.Key("guarantee");
  json.String(GuaranteeName(outcome.report ? outcome.report->guarantee : EvictGuarantee::kNone));
  if (outcome.report) {
    json.Key("call").String(outcome.report->call);
    if (outcome.report->blocks) {
      json.Key("blocks").Uint(*outcome.report->blocks);
    }
    if (outcome.report->tokens_left) {
      json.Key("tokens_left").Uint(*outcome.report->tokens_left);
    }
  } else {
    WriteRowError(json, outcome.report.error());
  }
  json.Key("honours_cache_salt").Bool(outcome.honours_cache_salt).EndObject();
}

}  // namespace

void Gateway::Evict(std::shared_ptr<Call> call) {
  driver::CacheControl* control = driver_.maybe_cache_control();
  if (control == nullptr) {
    Refuse(*call, {Code::kUnsupported, "no cache can be emptied here"});
    return;
  }
  Result<driver::EvictRequest> request = Decode(
      call->request.body,
      {options_.maybe_card.get(), options_.keys, call->context.tenant, call->context.wall_ns});
  if (!request) {
    Refuse(*call, request.error());
    return;
  }
  const std::string model = request->model;
  if (const Status known = CheckModel(model); !known) {
    Refuse(*call, known.error());
    return;
  }
  control->Evict(*std::move(request),
                 [this, call, model](const std::vector<driver::EvictOutcome>& all) {
                   if (all.empty()) {
                     Refuse(*call, {Code::kNotFound,
                                    "no upstream lists the model \"" + model +
                                        "\"; listed: " + Join(driver_.capabilities()->models, ", "),
                                    "model"});
                     return;
                   }
                   AnswerRows(*call, all.size(), [&all](JsonWriter& json, size_t row) {
                     WriteOutcome(json, all[row]);
                     return all[row].report ? nullptr : &all[row].report.error();
                   });
                 });
}

}  // namespace fak::gateway

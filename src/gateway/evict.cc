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

// The path that goes. Empty without a card: the engine behind reads the document, or drops all.
Result<std::vector<int32_t>> PathOf(const Json& document, wire::Fields& fields,
                                    const text::ModelCard* maybe_card, int64_t wall_ns) {
  const Json* ids = fields.Take("token_ids");
  const Json* messages = fields.Take("messages");
  const auto prompt = fields.String("prompt");
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
  } else if (maybe_card == nullptr) {
    return path;
  } else if (messages != nullptr) {
    TRY_ASSIGN(const wire::Turn turn, wire::DecodeChatRequest(document));
    TRY_ASSIGN(driver::PreparedPrompt prepared, PrepareChat(turn, *maybe_card, 0, wall_ns));
    path = std::move(prepared.tokens);
  } else {
    path = maybe_card->tokenizer->Encode(*prompt, {.add_special = true, .parse_special = true});
  }
  if (path.empty()) {
    return Fail(Code::kInvalidArgument, "the prefix to evict has no tokens", "scope");
  }
  return path;
}

Result<driver::EvictRequest> Decode(std::string_view body, const text::ModelCard* maybe_card,
                                    int64_t wall_ns) {
  TRY_ASSIGN(Json document, ParseJson(body));
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  wire::Fields fields(document);
  driver::EvictRequest request;
  request.model = fields.String("model").value_or("");
  const std::string scope = fields.String("scope").value_or("");
  const std::string tenant = fields.String("tenant").value_or("");
  request.cache_salt = FoldSalt(tenant, fields.String("cache_salt").value_or(""));
  TRY_ASSIGN(request.demanded, GuaranteeOf(fields.String("guarantee").value_or("none")));
  TRY(fields.status());
  if (scope != "all" && scope != "prefix") {
    return Fail(Code::kInvalidArgument, "scope: must be all or prefix", "scope");
  }
  if (scope == "prefix") {
    request.scope = EvictScope::kPrefix;
    TRY_ASSIGN(request.tokens, PathOf(document, fields, maybe_card, wall_ns));
    TRY(fields.status());
  }
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
  Result<driver::EvictRequest> request =
      Decode(call->request.body, options_.maybe_card.get(), call->context.wall_ns);
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

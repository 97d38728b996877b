#include "ride/request_edit.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "wire/document_edit.h"

namespace fak::ride {
namespace {

using Edits = std::vector<wire::MemberEdit>;

bool IsChatLike(wire::Surface surface) {
  return surface == wire::Surface::kChat || surface == wire::Surface::kCompletion;
}

// A member that clients may not set goes, but for what the operator allows of it.
void EditOwned(const std::string& name, const UpstreamPolicy& policy, const Json& document,
               Edits& edits) {
  const Json* given = document.Find(name);
  const auto allowed = [&policy](const std::string& path) {
    return std::find(policy.allowed_fields.begin(), policy.allowed_fields.end(), path) !=
           policy.allowed_fields.end();
  };
  if (given == nullptr || allowed(name)) {
    return;
  }
  Json kept = Json::Object{};
  if (given->is_object()) {
    for (const auto& [key, value] : given->object()) {
      if (allowed(name + "." + key)) {
        kept.Set(key, value);
      }
    }
  }
  const bool any = !kept.object().empty();
  edits.push_back({name, any ? std::optional(kept.Dump()) : std::nullopt});
}

void EditUsage(const Json& document, Edits& edits) {
  Json options = Json::Object{};
  if (const Json* given = document.Find("stream_options"); given != nullptr && given->is_object()) {
    options = *given;
  }
  options.Set("include_usage", true);
  edits.push_back({"stream_options", options.Dump()});
}

}  // namespace

const Route* FindRoute(const Adapter& adapter, wire::Surface surface) {
  const auto found =
      std::find_if(adapter.routes.begin(), adapter.routes.end(),
                   [surface](const Route& route) { return route.surface == surface; });
  return found == adapter.routes.end() ? nullptr : &*found;
}

EditedRequest EditRequest(const Adapter& adapter, const UpstreamPolicy& policy,
                          const driver::Prepared& prepared, const std::string& id) {
  const Json& document = *prepared.document;
  const wire::Turn& turn = *prepared.turn;
  EditedRequest out;
  Edits edits;
  const bool generate = turn.surface == wire::Surface::kGenerate;  // names no model, and no salt
  const std::string model =
      policy.model.empty() ? std::string(adapter.default_model) : policy.model;
  if (!model.empty() && !generate) {
    edits.push_back({"model", Json(model).Dump()});
  }
  for (const std::string_view name : adapter.owned_fields) {
    EditOwned(std::string(name), policy, document, edits);
  }
  if (!adapter.id_field.empty() && turn.prompts.size() <= 1 && !(generate && turn.n > 1)) {
    std::erase_if(edits, [&adapter](const auto& edit) { return edit.name == adapter.id_field; });
    edits.push_back({std::string(adapter.id_field), Json(id).Dump()});
  }
  // The tenant's name is part of the salt here; a client can't leave its tenant's cache.
  if (adapter.takes_cache_salt && !prepared.tenant.empty()) {
    edits.push_back({generate ? "extra_key" : "cache_salt", Json(prepared.cache_salt).Dump()});
  }
  out.withhold_usage =
      adapter.asks_usage && IsChatLike(turn.surface) && turn.stream && !turn.stream_include_usage;
  if (out.withhold_usage) {
    EditUsage(document, edits);
  }
  if (prepared.for_resumption && adapter.continues != nullptr && adapter.continues(prepared)) {
    edits.push_back({"return_token_ids", "true"});
    if (prepared.maybe_continuation != nullptr) {
      adapter.continue_answer(prepared, edits);
    }
  }
  if (prepared.maybe_body != nullptr) {
    out.body =
        edits.empty() ? *prepared.maybe_body : wire::EditMembers(*prepared.maybe_body, edits);
  } else {
    out.body = wire::EditMembers(document.Dump(), edits);
  }
  return out;
}

namespace {

// Engines tell requests apart by it, so that two with one id would end each other. The client's
// own, where there is one, is still found in their logs: the end makes it ours.
std::string RequestId(const driver::Prepared& prepared) {
  constexpr size_t kEndBytes = 12;
  const std::string& ours = prepared.request_id;
  return prepared.shown_id.empty() || prepared.shown_id == ours
             ? ours
             : prepared.shown_id + "-" +
                   ours.substr(ours.size() - std::min(ours.size(), kEndBytes));
}

}  // namespace

wire::HttpHeaders EditHeaders(const Adapter& adapter, const UpstreamPolicy& policy,
                              const driver::Prepared& prepared) {
  wire::HttpHeaders headers = {{"accept", "*/*"},
                               {"content-type", "application/json"},
                               {"x-request-id", RequestId(prepared)}};
  if (!prepared.traceparent.empty()) {
    headers.Add("traceparent", prepared.traceparent);
  }
  if (policy.rank && !adapter.rank_header.empty()) {
    headers.Set(adapter.rank_header, std::to_string(*policy.rank));
  }
  // By which a server knows that it has seen a request before: a fleet that leads back to itself.
  if (const auto via = prepared.client_headers.Get("via")) {
    headers.Add("via", std::string(*via));
  }
  for (const auto& [name, value] : prepared.client_headers) {
    const std::string& given = name;
    const auto same = [&given](std::string_view each) { return EqualsIgnoringCase(each, given); };
    const bool passes =
        std::any_of(adapter.passed_headers.begin(), adapter.passed_headers.end(), same) ||
        std::any_of(policy.allowed_headers.begin(), policy.allowed_headers.end(), same);
    if (passes && !headers.Has(name)) {
      headers.Add(name, value);
    }
  }
  for (const auto& [name, value] : adapter.default_headers) {
    if (!headers.Has(name)) {
      headers.Add(std::string(name), std::string(value));
    }
  }
  return headers;
}

}  // namespace fak::ride

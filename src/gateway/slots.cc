#include <algorithm>
#include <utility>

#include "gateway/answer_outcomes.h"
#include "wire/fields.h"

// POST /v1/fak/upstream/slot/save, /restore and /erase.
namespace fak::gateway {
namespace {

using Action = driver::SlotRequest::Action;

// Whose folder it is in is the engine's own choice: nothing in the name leads out of it.
bool IsFileName(std::string_view name) {
  constexpr size_t kBytesMax = 128;
  return !name.empty() && name.size() <= kBytesMax && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

Result<driver::SlotRequest> Decode(std::string_view body, Action action) {
  TRY_ASSIGN(const Json document, ParseJson(body));
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  constexpr int32_t kSlotsMax = 1024;
  wire::Fields fields(document);
  driver::SlotRequest request;
  request.action = action;
  request.worker = fields.String("worker").value_or("");
  const auto slot = fields.Int("slot", 0, kSlotsMax - 1);
  request.slot = static_cast<int32_t>(slot.value_or(0));
  if (action != Action::kErase) {
    request.file = fields.String("file").value_or("");
  }
  TRY(fields.status());
  TRY(fields.RefuseUnknown());
  if (!slot) {
    return Fail(Code::kInvalidArgument, "slot: is missing", "slot");
  }
  if (action != Action::kErase && !IsFileName(request.file)) {
    return Fail(Code::kInvalidArgument,
                "file: must be a name and no path: letters, digits, \"-\", \"_\" and \".\", at "
                "most 128, the first no \".\"",
                "file");
  }
  return request;
}

}  // namespace

void Gateway::ActOnSlot(std::shared_ptr<Call> call, Action action) {
  driver::SlotControl* control = driver_.maybe_slot_control();
  if (control == nullptr) {
    Refuse(*call, {Code::kUnsupported, "a model that is served here has no slots to save"});
    return;
  }
  Result<driver::SlotRequest> request = Decode(call->request.body, action);
  if (!request) {
    Refuse(*call, request.error());
    return;
  }
  const std::string worker = request->worker;
  control->ActOnSlot(*std::move(request),
                     [this, call, worker](const std::vector<driver::SlotOutcome>& all) {
                       AnswerOutcomes<driver::SlotOutcome, driver::SlotReport>(
                           *call, worker, all, &driver::SlotOutcome::report,
                           [](JsonWriter& json, const driver::SlotReport& did) {
                             json.Key("call").String(did.call);
                             if (did.tokens) {
                               json.Key("tokens").Uint(*did.tokens);
                             }
                           });
                     });
}

void Gateway::SaveSlot(std::shared_ptr<Call> call) {
  ActOnSlot(std::move(call), Action::kSave);
}

void Gateway::RestoreSlot(std::shared_ptr<Call> call) {
  ActOnSlot(std::move(call), Action::kRestore);
}

void Gateway::EraseSlot(std::shared_ptr<Call> call) {
  ActOnSlot(std::move(call), Action::kErase);
}

}  // namespace fak::gateway

#include <utility>

#include "gateway/answer_outcomes.h"
#include "wire/fields.h"

// POST /v1/fak/upstream/sleep and /v1/fak/upstream/wake.
namespace fak::gateway {
namespace {

// A body is optional: nothing in it means all workers, and the first level.
Result<driver::SleepRequest> Decode(std::string_view body, bool wake) {
  driver::SleepRequest request;
  request.wake = wake;
  if (body.empty()) {
    return request;
  }
  TRY_ASSIGN(const Json document, ParseJson(body));
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  wire::Fields fields(document);
  request.worker = fields.String("worker").value_or("");
  if (!wake) {
    constexpr int32_t kLevels = 2;
    request.level = static_cast<int32_t>(fields.Int("level", 1, kLevels).value_or(1));
  }
  TRY(fields.status());
  TRY(fields.RefuseUnknown());
  return request;
}

}  // namespace

void Gateway::SetAsleep(std::shared_ptr<Call> call, bool wake) {
  driver::SleepControl* control = driver_.maybe_sleep_control();
  if (control == nullptr) {
    Refuse(*call, {Code::kUnsupported, "a model that is served here can't be put to sleep"});
    return;
  }
  Result<driver::SleepRequest> request = Decode(call->request.body, wake);
  if (!request) {
    Refuse(*call, request.error());
    return;
  }
  const std::string worker = request->worker;
  control->SetAsleep(
      *std::move(request), [this, call, worker](const std::vector<driver::SleepOutcome>& all) {
        AnswerOutcomes<driver::SleepOutcome, std::string>(
            *call, worker, all, &driver::SleepOutcome::call,
            [](JsonWriter& json, const std::string& did) { json.Key("call").String(did); });
      });
}

void Gateway::Sleep(std::shared_ptr<Call> call) {
  SetAsleep(std::move(call), /*wake=*/false);
}

void Gateway::Wake(std::shared_ptr<Call> call) {
  SetAsleep(std::move(call), /*wake=*/true);
}

}  // namespace fak::gateway

#include "fleet/failure.h"

namespace fak::fleet {

FailureReading ReadFailure(const Error& error, const FailureContext& context) {
  if (context.deadline_over) {
    return {context.kept_silent ? Verdict::kFailed : Verdict::kNothing, false};
  }
  constexpr int kNotFound = 404;
  switch (error.code) {
    case Code::kRateLimited:
    case Code::kResourceExhausted: return {Verdict::kBusy, true};
    case Code::kUnavailable: return {context.reached ? Verdict::kBusy : Verdict::kFailed, true};
    // It listed the model a moment ago, and serves another one now.
    case Code::kNotFound: return {Verdict::kNothing, context.lists_model};
    // A path that this engine hasn't; a field that ours hasn't no other of ours has.
    case Code::kUnsupported: return {Verdict::kNothing, error.field.empty()};
    case Code::kInvalidArgument:
    case Code::kContextTooLong:
    case Code::kPayloadTooLarge:
    case Code::kAlreadyExists:
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
    case Code::kCancelled: return {Verdict::kNothing, false};
    case Code::kUpstreamError:
    case Code::kDeadlineExceeded:
    case Code::kDataCorrupt:
    case Code::kIoError:
    case Code::kInternal: break;
  }
  if (error.upstream_status == kNotFound) {
    return {Verdict::kNothing, context.lists_model};
  }
  const bool clients_fault = error.upstream_status >= 400 && error.upstream_status < 500;
  return clients_fault ? FailureReading{Verdict::kNothing, false}
                       : FailureReading{Verdict::kFailed, true};
}

}  // namespace fak::fleet

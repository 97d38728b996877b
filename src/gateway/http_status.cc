#include "gateway/http_status.h"

namespace fak::gateway {

int HttpStatusOf(const Error& error) {
  if (error.upstream_status >= 400 && error.upstream_status < 500) {
    return error.upstream_status;
  }
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kContextTooLong:
    case Code::kUnsupported: return 400;
    case Code::kUnauthenticated: return 401;
    case Code::kPermissionDenied: return 403;
    case Code::kNotFound: return 404;
    case Code::kAlreadyExists: return 409;
    case Code::kPayloadTooLarge: return 413;
    case Code::kRateLimited: return 429;
    case Code::kCancelled: return 499;
    case Code::kUpstreamError: return 502;
    case Code::kResourceExhausted:
    case Code::kUnavailable: return 503;
    case Code::kDeadlineExceeded: return 504;
    case Code::kDataCorrupt:
    case Code::kIoError:
    case Code::kInternal: return 500;
  }
  return 500;
}

}  // namespace fak::gateway

#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace fak {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kNotFound: return "not_found";
    case Code::kAlreadyExists: return "already_exists";
    case Code::kUnauthenticated: return "unauthenticated";
    case Code::kPermissionDenied: return "permission_denied";
    case Code::kPayloadTooLarge: return "payload_too_large";
    case Code::kContextTooLong: return "context_length_exceeded";
    case Code::kUnsupported: return "unsupported";
    case Code::kDataCorrupt: return "data_corrupt";
    case Code::kResourceExhausted: return "resource_exhausted";
    case Code::kRateLimited: return "rate_limited";
    case Code::kUnavailable: return "unavailable";
    case Code::kUpstreamError: return "upstream_error";
    case Code::kDeadlineExceeded: return "deadline_exceeded";
    case Code::kCancelled: return "cancelled";
    case Code::kIoError: return "io_error";
    case Code::kInternal: return "internal";
  }
  return "internal";
}

Error Within(std::string_view where, Error error) {
  error.detail = std::string(where) + ": " + error.detail;
  return error;
}

namespace internal {

void CheckFailed(const char* condition, const std::string& why, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed%s%s\n", file, line, condition,
               why.empty() ? "" : ": ", why.c_str());
  std::abort();
}

}  // namespace internal
}  // namespace fak

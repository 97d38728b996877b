#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tl/expected.hpp>

namespace fak {

// Why something failed, for the whole system. gateway/http_status.cc is the only place that
// turns a Code into an HTTP status.
enum class Code {
  kInvalidArgument,  // the caller's value is wrong; detail names the field
  kNotFound,         // a model, file, route or id that isn't there
  kAlreadyExists,
  kUnauthenticated,  // no key, or one we don't know
  kPermissionDenied,
  kPayloadTooLarge,    // over a bound of base/limits.h; detail names it
  kContextTooLong,     // the prompt alone can't fit; detail has the numbers
  kUnsupported,        // known, and not offered here; detail names it
  kDataCorrupt,        // a file or frame that breaks its format; detail says where
  kResourceExhausted,  // memory, disk, blocks, a full queue
  kRateLimited,
  kUnavailable,    // not ready, draining, upstream unreachable
  kUpstreamError,  // the upstream answered with an error or nonsense
  kDeadlineExceeded,
  kCancelled,
  kIoError,   // the operating system refused; detail has errno's text
  kInternal,  // our own bug, caught before it could do harm
};

std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string detail;  // one line for a person; no secret, no trailing full stop

  // The request field, flag or key at fault, where there is one ("messages[2].content").
  std::string field = {};
  // Upstream errors: the status the upstream answered with, else 0.
  int upstream_status = 0;
  // Seconds after which a retry makes sense, where known, else 0.
  int retry_after_s = 0;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> Fail(Code code, std::string detail, std::string field = {}) {
  return tl::unexpected<Error>(Error{code, std::move(detail), std::move(field)});
}
inline tl::unexpected<Error> Fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Prefixes the detail, so that the error says where it happened: "model.gguf: tensor 3: ...".
Error Within(std::string_view where, Error error);

namespace internal {
[[noreturn]] void CheckFailed(const char* condition, const std::string& why, const char* file,
                              int line);

// Collects what is streamed into a failed CHECK; its destructor ends the process.
class CheckMessage {
 public:
  CheckMessage(const char* condition, const char* file, int line)
      : condition_(condition), file_(file), line_(line) {}
  CheckMessage(const CheckMessage&) = delete;
  CheckMessage& operator=(const CheckMessage&) = delete;
  ~CheckMessage() { CheckFailed(condition_, why_, file_, line_); }
  CheckMessage& operator<<(std::string_view text) {
    why_ += text;
    return *this;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  CheckMessage& operator<<(T value) {
    why_ += std::to_string(value);
    return *this;
  }

 private:
  const char* condition_;
  const char* file_;
  int line_;
  std::string why_;
};
struct CheckVoidify {
  void operator&(const CheckMessage&) const {}
};
}  // namespace internal

}  // namespace fak

// Our own bugs only; never on anything a client, a file or a peer can send.
#define CHECK(condition)                          \
  (condition) ? static_cast<void>(0)              \
              : ::fak::internal::CheckVoidify() & \
                    ::fak::internal::CheckMessage(#condition, __FILE__, __LINE__)
#ifdef NDEBUG
#define DCHECK(condition) CHECK(true || (condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif

#define FAK_CONCAT_INNER(a, b) a##b
#define FAK_CONCAT(a, b) FAK_CONCAT_INNER(a, b)

// TRY(expression): returns its error from the calling function, drops its value.
// TRY_ASSIGN(declaration, expression): the same, and binds the value.
// The only control-flow macros.
#define TRY(...)                                                                \
  do {                                                                          \
    auto&& fak_try_result = (__VA_ARGS__);                                      \
    if (!fak_try_result) {                                                      \
      return ::tl::unexpected<::fak::Error>(std::move(fak_try_result).error()); \
    }                                                                           \
  } while (false)
#define TRY_ASSIGN(declaration, ...) \
  TRY_ASSIGN_INNER(FAK_CONCAT(fak_try_, __LINE__), declaration, __VA_ARGS__)
#define TRY_ASSIGN_INNER(temporary, declaration, ...)                    \
  auto temporary = (__VA_ARGS__);                                        \
  if (!temporary) {                                                      \
    return ::tl::unexpected<::fak::Error>(std::move(temporary).error()); \
  }                                                                      \
  declaration = std::move(temporary).value()

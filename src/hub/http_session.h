#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/store.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/url.h"

namespace fak::hub {

// Where the bytes of an answer go. Called on the session's loop while Get() waits; a failure ends
// the transfer.
class BodyTarget {
 public:
  virtual ~BodyTarget() = default;
  // The head of a 200 or 206; bodies of other answers are dropped.
  [[nodiscard]] virtual Status Begin(int status, const net::HttpHeaders& headers) = 0;
  [[nodiscard]] virtual Status Take(std::string_view bytes) = 0;
};

struct HttpAnswer {
  int status = 0;
  net::HttpHeaders headers;
  net::Url from;       // after redirects
  std::string sha256;  // of the file, when the last answer or one that redirected names it
};

// GET for pulls. Follows redirects, but none from https to http. Blocking, one thread. `options`
// must outlive it.
class HttpSession {
 public:
  [[nodiscard]] static Result<std::unique_ptr<HttpSession>> Make(const PullOptions& options);
  ~HttpSession();

  // fields: sent with every hop. token: a bearer for the origin of `url` alone; may be empty; never
  // part of an error. on_tick: on the calling thread, about ten times a second; may be null.
  // Gives the last answer, whatever its status. Errors: the target's, the network's, kUpstreamError
  // (redirects), kDeadlineExceeded, kCancelled.
  [[nodiscard]] Result<HttpAnswer> Get(const std::string& url, const std::string& token,
                                       const net::HttpHeaders& fields, BodyTarget& target,
                                       const std::function<void()>& on_tick = nullptr);

 private:
  explicit HttpSession(const PullOptions& options) : options_(options) {}
  Result<HttpAnswer> GetOnce(const net::Url& url, net::HttpHeaders fields, BodyTarget& target,
                             const std::function<void()>& on_tick);

  const PullOptions& options_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpClient> client_;
};

// Without the query, which may hold a secret: for messages and records.
std::string_view ShownUrl(std::string_view url);

// What an answer that is no success means; `what` begins the message.
Error AnswerError(std::string_view what, const HttpAnswer& answer);

}  // namespace fak::hub

#include "hub/http_session.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/strings.h"
#include "base/version.h"

namespace fak::hub {
namespace {

// What the loop and the waiting thread share of one exchange.
struct Transfer {
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<Status> ended;
  // Written on the loop, read when it has ended.
  int status = 0;
  net::HttpHeaders headers;
};

class TransferSink final : public net::HttpResponseSink {
 public:
  TransferSink(std::shared_ptr<Transfer> transfer, BodyTarget& target)
      : transfer_(std::move(transfer)), target_(target) {}

  void OnHead(int status, net::HttpHeaders headers) override {
    transfer_->status = status;
    transfer_->headers = std::move(headers);
    if (status == 200 || status == 206) {
      takes_ = true;
      Check(target_.Begin(status, transfer_->headers));
    } else {
      End({});  // its body, which may have no end, says nothing to us
    }
  }
  void OnBody(std::string_view bytes) override {
    if (takes_) {
      Check(target_.Take(bytes));
    }
  }
  void OnDone(Status status) override { End(std::move(status)); }

 private:
  void Check(Status taken) {
    if (!taken) {
      takes_ = false;
      End(std::move(taken));
    }
  }
  // The first end counts.
  void End(Status status) {
    const std::lock_guard lock(transfer_->mutex);
    if (!transfer_->ended) {
      transfer_->ended = std::move(status);
      transfer_->wake.notify_all();
    }
  }

  const std::shared_ptr<Transfer> transfer_;
  BodyTarget& target_;
  bool takes_ = false;
};

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A hub names the file's SHA-256 where it redirects to its storage; so do some servers as ETag.
std::string Sha256Of(const net::HttpHeaders& headers) {
  for (const char* name : {"x-linked-etag", "etag"}) {
    std::string_view tag = headers.Get(name).value_or("");
    if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') {
      tag = tag.substr(1, tag.size() - 2);
    }
    if (IsSha256(tag)) {
      return std::string(tag);
    }
  }
  return "";
}

Result<net::Url> Redirected(const net::Url& from, const std::string& location) {
  std::string url = location;
  if (location.starts_with("//")) {
    url = (from.origin.tls ? "https:" : "http:") + location;
  } else if (location.starts_with('/')) {
    url = from.origin.ToString() + location;
  } else if (location.find("://") == std::string::npos) {
    const std::string_view path = std::string_view(from.target).substr(0, from.target.find('?'));
    url = from.origin.ToString() + std::string(path.substr(0, path.rfind('/') + 1)) + location;
  }
  Result<net::Url> next = net::ParseUrl(url);
  if (!next || (from.origin.tls && !next->origin.tls)) {
    return Fail(Code::kUpstreamError, from.origin.ToString() + ": redirects to " +
                                          (next ? "plain http" : "something that is no URL"));
  }
  return next;
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

Result<std::unique_ptr<HttpSession>> HttpSession::Make(const PullOptions& options) {
  std::unique_ptr<HttpSession> session(new HttpSession(options));
  session->loop_.Start("pull");
  TRY_ASSIGN(net::ProxyRules proxies, net::ProxyRules::FromEnvironment());
  TRY_ASSIGN(session->client_,
             net::HttpClient::Make(session->loop_, {.proxies = std::move(proxies)}));
  return session;
}

HttpSession::~HttpSession() {
  client_.reset();
  loop_.Stop();
}

Result<HttpAnswer> HttpSession::Get(const std::string& url, const std::string& token,
                                    const net::HttpHeaders& fields, BodyTarget& target,
                                    const std::function<void()>& on_tick) {
  TRY_ASSIGN(net::Url at, net::ParseUrl(url));
  bool trusted = !token.empty();  // until the first step to another origin
  std::string sha256;
  for (int hop = 0; hop <= limits::kHubRedirectsMax; ++hop) {
    net::HttpHeaders sent = fields;
    if (trusted) {
      sent.Set("authorization", "Bearer " + token);
    }
    TRY_ASSIGN(HttpAnswer answer, GetOnce(at, std::move(sent), target, on_tick));
    sha256 = sha256.empty() ? Sha256Of(answer.headers) : sha256;
    const std::string location(answer.headers.Get("location").value_or(""));
    if (!IsRedirect(answer.status) || location.empty()) {
      answer.sha256 = std::move(sha256);
      return answer;
    }
    TRY_ASSIGN(net::Url next, Redirected(at, location));
    trusted = trusted && next.origin == at.origin;
    at = std::move(next);
  }
  return Fail(Code::kUpstreamError, std::string(ShownUrl(url)) + ": more than " +
                                        std::to_string(limits::kHubRedirectsMax) + " redirects");
}

Result<HttpAnswer> HttpSession::GetOnce(const net::Url& url, net::HttpHeaders fields,
                                        BodyTarget& target, const std::function<void()>& on_tick) {
  fields.Set("accept", "*/*");
  fields.Set("user-agent", std::string("fak/") + kVersion);
  net::HttpClientRequest request{
      .origin = url.origin,
      .target = url.target,
      .headers = std::move(fields),
      .timeouts = {.first_byte_ms = options_.silence_ms, .idle_ms = options_.silence_ms}};
  const auto transfer = std::make_shared<Transfer>();
  std::shared_ptr<net::HttpExchange> exchange;
  loop_.Invoke([&] {
    exchange = client_->Send(std::move(request), std::make_unique<TransferSink>(transfer, target));
  });
  const auto ended = [&transfer] { return transfer->ended.has_value(); };
  std::unique_lock lock(transfer->mutex);
  while (!transfer->wake.wait_for(lock, std::chrono::milliseconds(100), ended)) {
    if (options_.maybe_cancel != nullptr && options_.maybe_cancel->load()) {
      transfer->ended =
          Fail(Code::kCancelled, "the pull was cancelled; it will go on where it stopped");
    } else if (on_tick) {
      lock.unlock();
      on_tick();
      lock.lock();
    }
  }
  lock.unlock();
  // Frees the sink when it hasn't been: from here on nobody calls the target.
  loop_.Invoke([&exchange] { exchange->Cancel(); });
  if (const Status& ended_as = *transfer->ended; !ended_as) {
    Error error = ended_as.error();
    if (error.code == Code::kUnavailable) {
      error.detail += "; check the network and proxy settings";
    }
    return Fail(std::move(error));
  }
  return HttpAnswer{transfer->status, std::move(transfer->headers), url, ""};
}

std::string_view ShownUrl(std::string_view url) {
  return url.substr(0, url.find_first_of("?#"));
}

Error AnswerError(std::string_view what, const HttpAnswer& answer) {
  const int status = answer.status;
  Error error{Code::kUpstreamError, std::string(what) + ": " + answer.from.origin.ToString() +
                                        " answered " + std::to_string(status)};
  if (status == 401 || status == 403) {
    error.code = Code::kPermissionDenied;
    error.detail += ": it is private, needs a key, or its terms have to be accepted there";
  } else if (status == 404 || status == 410) {
    error.code = Code::kNotFound;
    error.detail += ": there is no such thing";
  } else if (status == 429) {
    error.code = Code::kRateLimited;
    error.detail += ": too many requests";
  } else if (status >= 500) {
    error.code = Code::kUnavailable;
    error.detail += ": it has trouble of its own; try again later";
  }
  const auto after = ParseUint(answer.headers.Get("retry-after").value_or(""));
  if (after && (status == 429 || status == 503) && *after <= 86'400) {
    error.retry_after_s = static_cast<int>(*after);
    error.detail += "; try again in " + std::to_string(*after) + " s";
  }
  return error;
}

}  // namespace fak::hub

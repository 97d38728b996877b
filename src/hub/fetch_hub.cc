#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/json.h"
#include "base/limits.h"
#include "base/strings.h"
#include "hub/download.h"
#include "hub/fetch.h"
#include "hub/repository.h"

namespace fak::hub {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : std::string(Trim(value));
}

struct Hub {
  std::string url;
  std::string token;
};

Result<Hub> HubOfEnvironment() {
  Hub hub{Environment("HF_ENDPOINT"), Environment("HF_TOKEN")};
  while (hub.url.ends_with('/')) {
    hub.url.pop_back();
  }
  hub.url = hub.url.empty() ? "https://huggingface.co" : hub.url;
  const Result<net::Url> url = net::ParseUrl(hub.url);
  if (!url) {
    return Fail(Within("HF_ENDPOINT", url.error()));
  }
  if (!url->origin.tls && !net::IsLoopbackHost(url->origin.host)) {
    return Fail(Code::kInvalidArgument, "HF_ENDPOINT: plain http is not taken");
  }
  return hub;
}

class TextTarget final : public BodyTarget {
 public:
  Status Begin(int, const net::HttpHeaders&) override {
    text_.clear();
    return {};
  }
  Status Take(std::string_view bytes) override {
    text_ += bytes;
    return text_.size() <= limits::kHubListingBytesMax
               ? Status()
               : Status(Fail(Code::kPayloadTooLarge,
                             "the hub's answer has more than " +
                                 std::to_string(limits::kHubListingBytesMax) + " bytes"));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Page {
  Json json;
  std::string next;  // URL of the page that follows; empty: none
};

// The next page of a list: `<URL>; rel="next"`. Of the same origin, which gets the token.
Result<std::string> NextPage(const HttpAnswer& answer) {
  const std::string_view link = answer.headers.Get("link").value_or("");
  const size_t end = link.find('>');
  if (!link.starts_with('<') || end == std::string_view::npos ||
      link.find("rel=\"next\"", end) == std::string_view::npos) {
    return "";
  }
  std::string url(link.substr(1, end - 1));
  TRY_ASSIGN(const net::Url next, net::ParseUrl(url));
  if (next.origin != answer.from.origin) {
    return Fail(Code::kUpstreamError, "the hub's list goes on at another server");
  }
  return url;
}

Result<Page> GetJson(HttpSession& session, const Hub& hub, const std::string& url,
                     const std::string& what) {
  TextTarget target;
  TRY_ASSIGN(const HttpAnswer answer, session.Get(url, hub.token, {}, target));
  if (answer.status != 200) {
    Error error = AnswerError(what, answer);
    if (error.code == Code::kPermissionDenied) {
      error.detail += hub.token.empty() ? "; HF_TOKEN is not set" : "; HF_TOKEN was sent";
    }
    return Fail(std::move(error));
  }
  Result<Json> json = ParseJson(target.text());
  if (!json) {
    return Fail(Code::kUpstreamError, what + ": the hub's answer is no JSON");
  }
  TRY_ASSIGN(std::string next, NextPage(answer));
  return Page{*std::move(json), std::move(next)};
}

Result<std::vector<RepositoryFile>> ListFiles(HttpSession& session, const Hub& hub,
                                              const std::string& repository,
                                              const std::string& what) {
  std::vector<RepositoryFile> files;
  std::string url = hub.url + "/api/models/" + repository + "/tree/main?recursive=true";
  for (int page = 0; page < limits::kHubListingPagesMax; ++page) {
    TRY_ASSIGN(Page got, GetJson(session, hub, url, what));
    TRY(AddFiles(got.json, files));
    if (got.next.empty()) {
      return files;
    }
    url = std::move(got.next);
  }
  return Fail(Code::kPayloadTooLarge, what + ": its list of files has more than " +
                                          std::to_string(limits::kHubListingPagesMax) + " pages");
}

}  // namespace

Result<Fetched> FetchHuggingFace(const Reference& reference, const std::string& folder,
                                 const PullOptions& options) {
  TRY_ASSIGN(const Hub hub, HubOfEnvironment());
  TRY_ASSIGN(const std::unique_ptr<HttpSession> session, HttpSession::Make(options));
  TRY_ASSIGN(const std::vector<RepositoryFile> files,
             ListFiles(*session, hub, reference.repository, reference.text));
  TRY_ASSIGN(const std::vector<RepositoryFile> chosen, ChooseFiles(files, reference));
  PullSize size;
  for (const RepositoryFile& file : chosen) {
    size.total += file.bytes;
  }
  Fetched fetched;
  for (const RepositoryFile& file : chosen) {
    const std::string path = folder + "/part-" + std::to_string(fetched.files.size() + 1);
    TRY_ASSIGN(FetchedFile part, DownloadFile(*session,
                                              {hub.url + "/" + reference.repository +
                                                   "/resolve/main/" + UrlPath(file.path),
                                               hub.token, file.bytes, file.sha256},
                                              path, size, options));
    fetched.files.push_back(std::move(part));
    size.done += file.bytes;
  }
  return fetched;
}

}  // namespace fak::hub

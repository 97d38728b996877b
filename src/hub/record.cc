#include "hub/record.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "hub/folders.h"

namespace fak::hub {
namespace {

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
  if (!json || TextAt(*json, "name").empty()) {
    return std::nullopt;
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
  const std::string folder = path.substr(0, path.rfind('/') + 1);
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

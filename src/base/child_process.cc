#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/limits.h"

extern "C" char** environ;

namespace fak {
namespace {

struct Pipe {
  FileHandle read;
  FileHandle write;
};

Result<Pipe> MakePipe() {
  int fds[2] = {-1, -1};
  if (pipe(fds) != 0) {
    return Fail(ErrnoError(errno, "pipe"));
  }
  Pipe made{FileHandle(fds[0]), FileHandle(fds[1])};
  for (const int fd : fds) {
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      return Fail(ErrnoError(errno, "pipe"));
    }
  }
  return made;
}

// posix_spawn's two parameter objects, freed together.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // A group of its own, and no signal left ignored or blocked by us.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  void Connect(int ours, int theirs) { posix_spawn_file_actions_adddup2(&actions_, ours, theirs); }
  void OpenNull(int theirs) {
    posix_spawn_file_actions_addopen(&actions_, theirs, "/dev/null", O_RDONLY, 0);
  }
  void ChangeFolder(const std::string& folder) {
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
  }
  int Spawn(pid_t* pid, char* const* argv, char* const* environment) {
    return posix_spawnp(pid, argv[0], &actions_, &attributes_, argv, environment);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Ours with the additions in place of what they shadow.
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    bool shadowed = false;
    for (const auto& [name, value] : additions) {
      shadowed |= variable.starts_with(name + "=");
    }
    if (!shadowed) {
      variables.emplace_back(variable);
    }
  }
  for (const auto& [name, value] : additions) {
    variables.push_back(name + "=" + value);
  }
  return variables;
}

// Cuts a byte stream into lines.
class LineCutter {
 public:
  LineCutter(ChildProcess::Stream stream,
             FunctionRef<bool(ChildProcess::Stream, std::string_view)> on_line)
      : stream_(stream), on_line_(on_line) {}

  bool Feed(std::string_view bytes) {
    for (const char c : bytes) {
      if (c != '\n' && c != '\r') {
        line_ += c;
      }
      const bool empty_after_cr = c == '\n' && after_cr_;
      const bool ends =
          (c == '\n' && !empty_after_cr) || c == '\r' || line_.size() >= limits::kChildLineBytesMax;
      after_cr_ = c == '\r';
      if (ends && !Flush()) {
        return false;
      }
    }
    return true;
  }
  bool Finish() { return line_.empty() || Flush(); }

 private:
  bool Flush() {
    const bool more = on_line_(stream_, line_);
    line_.clear();
    return more;
  }

  ChildProcess::Stream stream_;
  FunctionRef<bool(ChildProcess::Stream, std::string_view)> on_line_;
  std::string line_;
  bool after_cr_ = false;
};

ChildExit ExitOf(int status) {
  if (WIFSIGNALED(status)) {
    return {128 + WTERMSIG(status), WTERMSIG(status)};
  }
  return {WEXITSTATUS(status), 0};
}

}  // namespace

Result<ChildProcess> ChildProcess::Spawn(const ChildOptions& options) {
  CHECK(!options.argv.empty()) << "no program";
  ChildProcess child;
  SpawnPlan plan;
  Pipe in;
  Pipe err;
  TRY_ASSIGN(Pipe out, MakePipe());
  plan.Connect(out.write.fd(), STDOUT_FILENO);
  if (options.open_stdin) {
    TRY_ASSIGN(in, MakePipe());
    plan.Connect(in.read.fd(), STDIN_FILENO);
  } else {
    plan.OpenNull(STDIN_FILENO);
  }
  if (options.merge_stderr) {
    plan.Connect(STDOUT_FILENO, STDERR_FILENO);
  } else {
    TRY_ASSIGN(err, MakePipe());
    plan.Connect(err.write.fd(), STDERR_FILENO);
  }
  if (!options.folder.empty()) {
    plan.ChangeFolder(options.folder);
  }
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> environment = EnvironmentWith(options.environment);
  const int error = plan.Spawn(&child.pid_, Pointers(argv).data(), Pointers(environment).data());
  if (error != 0) {
    child.pid_ = -1;
    return Fail(ErrnoError(error, options.argv[0]));
  }
  child.stdin_ = std::move(in.write);
  child.stdout_ = std::move(out.read);
  child.stderr_ = std::move(err.read);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_(other.exit_),
      stdin_(std::move(other.stdin_)),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_, other.exit_);
  std::swap(stdin_, other.stdin_);
  std::swap(stdout_, other.stdout_);
  std::swap(stderr_, other.stderr_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !exit_) {
    Kill(SIGKILL);
    (void)WaitWith(0);
  }
}

Status ChildProcess::ReadLines(FunctionRef<bool(Stream, std::string_view)> on_line) {
  LineCutter cutters[2] = {{Stream::kStdout, on_line}, {Stream::kStderr, on_line}};
  std::array<pollfd, 2> waits = {pollfd{stdout_.fd(), POLLIN, 0}, pollfd{stderr_.fd(), POLLIN, 0}};
  std::array<char, 16 * 1024> buffer;
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      return Fail(ErrnoError(errno, "poll"));
    }
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0) {
        continue;
      }
      const ssize_t got = read(waits[i].fd, buffer.data(), buffer.size());
      if (got < 0 && errno != EINTR) {
        return Fail(ErrnoError(errno, "output of a child process"));
      }
      bool more = true;
      if (got > 0) {
        more = cutters[i].Feed({buffer.data(), static_cast<size_t>(got)});
      } else if (got == 0) {
        waits[i].fd = -1;
        more = cutters[i].Finish();
      }
      if (!more) {
        return {};
      }
    }
  }
  return {};
}

Status ChildProcess::WriteStdin(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(stdin_.fd(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return Fail(ErrnoError(errno, "input of a child process"));
    }
    bytes.remove_prefix(static_cast<size_t>(written > 0 ? written : 0));
  }
  return {};
}

Result<std::optional<ChildExit>> ChildProcess::WaitWith(int flags) {
  if (exit_) {
    return exit_;
  }
  int status = 0;
  pid_t got = waitpid(pid_, &status, flags);
  while (got < 0 && errno == EINTR) {
    got = waitpid(pid_, &status, flags);
  }
  if (got < 0) {
    return Fail(ErrnoError(errno, "waitpid"));
  }
  if (got == pid_) {
    exit_ = ExitOf(status);
  }
  return exit_;
}

Result<ChildExit> ChildProcess::Wait() {
  TRY_ASSIGN(const std::optional<ChildExit> exit, WaitWith(0));
  return *exit;
}

Result<std::optional<ChildExit>> ChildProcess::TryWait() {
  return WaitWith(WNOHANG);
}

void ChildProcess::Kill(int signal) const {
  if (pid_ > 0 && !exit_) {
    kill(-pid_, signal);
  }
}

Result<std::string> RunProgram(const std::vector<std::string>& argv) {
  TRY_ASSIGN(ChildProcess child, ChildProcess::Spawn({.argv = argv}));
  std::string output;
  std::string last_complaint;
  TRY(child.ReadLines([&](ChildProcess::Stream stream, std::string_view line) {
    if (stream == ChildProcess::Stream::kStderr) {
      last_complaint = line;
      return true;
    }
    output += line;
    output += '\n';
    return output.size() <= limits::kChildOutputBytesMax;
  }));
  if (output.size() > limits::kChildOutputBytesMax) {
    return Fail(
        Code::kPayloadTooLarge,
        argv[0] + ": wrote more than " + std::to_string(limits::kChildOutputBytesMax) + " bytes");
  }
  TRY_ASSIGN(const ChildExit exit, child.Wait());
  if (exit.status != 0) {
    return Fail(Code::kIoError,
                argv[0] + ": exit status " + std::to_string(exit.status) + ": " + last_complaint);
  }
  return output;
}

}  // namespace fak

#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/function_ref.h"
#include "base/result.h"

namespace fak {

struct ChildOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH; no shell is involved
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to ours
  std::string folder = {};                                            // working folder; empty: ours
  bool merge_stderr = false;  // stderr comes out of stdout's pipe
  bool open_stdin = false;    // a pipe to write to; otherwise stdin is /dev/null
};

// How a process ended.
struct ChildExit {
  int status = 0;  // exit status; 128 + signal when a signal ended it
  int signal = 0;
};

// A running program with pipes to its output. Signals go to its whole process group, so that
// what it started goes with it. Destroying it kills (SIGKILL) and reaps what still runs.
// Not thread-safe, except for Kill().
class ChildProcess {
 public:
  // kNotFound when there is no such program.
  [[nodiscard]] static Result<ChildProcess> Spawn(const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  enum class Stream { kStdout, kStderr };
  // Reads both outputs until the child has closed them and calls `on_line` with each line, without
  // its end; a carriage return ends a line too (progress bars). Longer lines are cut into pieces
  // of limits::kChildLineBytesMax. Returning false stops the reading.
  [[nodiscard]] Status ReadLines(FunctionRef<bool(Stream, std::string_view)> on_line);

  // Writes all of it to the child's stdin; kIoError when the child no longer reads.
  [[nodiscard]] Status WriteStdin(std::string_view bytes);
  void CloseStdin() { stdin_.Reset(); }

  // Blocks. Idempotent.
  [[nodiscard]] Result<ChildExit> Wait();
  // nullopt while it runs.
  [[nodiscard]] Result<std::optional<ChildExit>> TryWait();
  // Sends a signal, SIGTERM say; nothing happens when it has been waited for.
  void Kill(int signal) const;

 private:
  ChildProcess() = default;
  Result<std::optional<ChildExit>> WaitWith(int flags);

  pid_t pid_ = -1;
  std::optional<ChildExit> exit_;
  FileHandle stdin_;
  FileHandle stdout_;
  FileHandle stderr_;
};

// Runs a program to its end and gives its output (stdout, bounded by limits::kChildOutputBytesMax).
// A status other than 0 is kIoError with the last line it wrote to stderr.
[[nodiscard]] Result<std::string> RunProgram(const std::vector<std::string>& argv);

}  // namespace fak

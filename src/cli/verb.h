#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

// A verb of the program ("serve", "run", ...): its flags and what it does. Each has a file of its
// own; verbs.cc lists them.
namespace fak::cli {

// 0: well; the others after an error was printed.
using ExitStatus = int;
inline constexpr ExitStatus kFailed = 1;
inline constexpr ExitStatus kWrongUsage = 2;
inline constexpr ExitStatus kInterrupted = 130;  // by Ctrl-C: what a shell expects
inline constexpr ExitStatus kReaderGone = 141;   // the pipe was closed: likewise

// What verbs are added to.
struct Program {
  CLI::App& app;
  // The TOML file, before a verb runs; nullopt: there is none. It has a table a verb and the
  // fleet's replicas.
  std::optional<ConfigTable> maybe_file = {};
  std::string file_path = {};
};

struct Verb {
  // Adds the verb to the program, which outlives it; the returned function runs it after parsing.
  using Register = std::function<ExitStatus()> (*)(Program& program);
  std::string_view name;
  Register add;
};

// Prints "fak: <detail>" on stderr. Returns kInterrupted for kCancelled, kWrongUsage for a flag's
// wrong value, else kFailed.
ExitStatus PrintError(const Error& error);

// "fak bench model".
std::string VerbPath(const CLI::App& verb);
// Of the verbs inside; empty for most.
std::vector<std::string> VerbNames(const CLI::App& app);

// The TOML file: that of --config, else $XDG_CONFIG_HOME/fak/config.toml; nullopt where there is
// none. Read once: it may be a pipe.
[[nodiscard]] Result<std::optional<ConfigTable>> LoadConfigFile(const std::string& path,
                                                                bool named);
// --config's, else the default's; empty: there is no place for one.
std::string ConfigPath(const std::string& named);

// Flags have three sources: the command line, then FAK_<NAME> in the environment, then the table of
// the verb in the TOML file; [bench.model] is that of "bench model". Every long name of a flag is
// one in all three. Fills the options that the command line left out.
// Errors name the variable or the file's line. docs/decisions/0007-flags.md.
[[nodiscard]] Status ApplyEnvironmentAndFile(CLI::App& verb,
                                             const std::optional<ConfigTable>& maybe_file);

// Where a flag got its value from, once that has run: "--threads" where it was `typed`,
// "FAK_THREADS in the environment", or "threads in the TOML file".
std::string SourceOf(const CLI::Option& option, bool typed);

// A line on stderr for each FAK_* variable that no verb listens to, with the nearest that one does.
void WarnOfUnknownVariables(const CLI::App& program);

}  // namespace fak::cli

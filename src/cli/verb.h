#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace CLI {
class App;
}  // namespace CLI

// A verb of the program ("serve", "run", ...): its flags and what it does. Each has a file of its
// own; verbs.cc lists them.
namespace fak::cli {

// 0: well; 1: it failed, and the error was printed; 2: wrong usage.
using ExitStatus = int;

struct Verb {
  // Adds the verb to the program; the returned function runs it after parsing.
  using Register = std::function<ExitStatus()> (*)(CLI::App& program);
  std::string_view name;
  Register add;
};

// Prints "fak: <detail>" on stderr. Returns 1.
ExitStatus PrintError(const Error& error);

// Flags have three sources: the command line, then FAK_<NAME> in the environment, then the table of
// the verb in the TOML file (--config, else $XDG_CONFIG_HOME/fak/config.toml if there is one).
// Fills the options that the command line left out. Errors name the variable or the file's line.
[[nodiscard]] Status ApplyEnvironmentAndFile(CLI::App& verb, const std::string& config_path);

}  // namespace fak::cli

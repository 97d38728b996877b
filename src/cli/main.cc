#include <CLI/CLI.hpp>

#include <cstdio>

#include "base/signal.h"
#include "base/version.h"
#include "cli/verbs.h"

// The program: parses the verb and its flags and runs it. The only place that sees both engine and
// ride is cli/serve.cc, which binds them.
int main(int argc, char** argv) {
  fak::IgnoreSigpipe();
  CLI::App program("fak serves large language models: natively, or in front of other engines.",
                   "fak");
  program.set_version_flag("--version", std::string("fak ") + fak::kVersion);
  program.require_subcommand(1);
  std::string config_path;
  program.add_option("--config", config_path,
                     "TOML file with a table a verb (default: ~/.config/fak/config.toml)");
  program.footer(
      "Every verb has --help with an example. Flags also come from FAK_<NAME> and the "
      "TOML file.");
  std::vector<std::function<fak::cli::ExitStatus()>> runs;
  for (const fak::cli::Verb& verb : fak::cli::Verbs()) {
    runs.push_back(verb.add(program));
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  const auto verbs = fak::cli::Verbs();
  for (size_t i = 0; i < verbs.size(); ++i) {
    CLI::App* verb = program.get_subcommand(std::string(verbs[i].name));
    if (!verb->parsed()) {
      continue;
    }
    // "bench model": the flags are the inner verb's.
    CLI::App* flags = verb->get_subcommands().empty() ? verb : verb->get_subcommands().front();
    if (const fak::Status applied = fak::cli::ApplyEnvironmentAndFile(*flags, config_path);
        !applied) {
      fak::cli::PrintError(applied.error());
      return 2;
    }
    return runs[i]();
  }
  return 2;
}

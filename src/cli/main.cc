#include <CLI/CLI.hpp>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/signal.h"
#include "base/strings.h"
#include "base/version.h"
#include "cli/suggest.h"
#include "cli/verbs.h"

// The program: parses the verb and its flags and runs it.
namespace {

using fak::cli::kWrongUsage;

// "help" and "help VERB" are the flag of that name, and "version" alone is, as people type it.
void TakeFlagsTypedAsVerbs(std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin(), words.begin() + (words.size() > 1 && words[1] == "help" ? 2 : 1));
    words.push_back("--help");
  }
  if (words.size() == 1 && (words[0] == "version" || words[0] == "-v" || words[0] == "-V")) {
    words[0] = "--version";
  }
}

// What other programs of this kind call a verb; empty: nothing is known under that name.
std::string MeantByOthers(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"version", "--version"}, {"models", "list"},  {"ps", "list"},   {"ls", "list"},
      {"chat", "run"},          {"show", "inspect"}, {"delete", "rm"}, {"remove", "rm"},
  };
  for (const auto& [other, ours] : kOthers) {
    if (other == word) {
      return std::string(ours);
    }
  }
  return "";
}

// "bench.model": the verb's table in the TOML file.
std::string TableName(const CLI::App& verb) {
  const CLI::App& outer = *verb.get_parent();
  return (outer.get_parent() == nullptr ? "" : TableName(outer) + ".") + verb.get_name();
}

// Says at the end of each verb's help where its flags may come from too.
void AddSources(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    if (fak::cli::VerbNames(*verb).empty()) {
      verb->footer(verb->get_footer() +
                   "\n\nA flag also comes from FAK_<NAME> in the environment (--kv-cache-memory: "
                   "FAK_KV_CACHE_MEMORY), then\nfrom [" +
                   TableName(*verb) + "] in the TOML file, which --config FILE names.");
    }
    AddSources(*verb);
  }
}

// What is wrong with the verb as it was typed; empty: nothing, or there is none. Before the parser,
// which would show the program's help for "fak nosuch --help".
std::string WrongVerb(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* app = &program;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with('-')) {
      i += words[i] == "--config" ? 1 : 0;
      continue;
    }
    const std::vector<std::string> verbs = fak::cli::VerbNames(*app);
    if (verbs.empty()) {
      break;
    }
    if (std::find(verbs.begin(), verbs.end(), words[i]) == verbs.end()) {
      const std::string path = fak::cli::VerbPath(*app);
      const std::string meant = app == &program ? MeantByOthers(words[i]) : "";
      return path + ": there is no verb \"" + words[i] + "\"" +
             (meant.empty() ? fak::cli::DidYouMean(words[i], verbs)
                            : " (did you mean " + meant + "?)") +
             "\n" + path + " --help lists them";
    }
    app = app->get_subcommand(words[i]);
  }
  return "";
}

// Says "..." only of options that take several words at once, and not of repeatable ones.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const size_t several = option->get_allow_extra_args() ? std::string::npos : text.find(" ...");
    return several == std::string::npos ? text
                                        : text.erase(several, std::string_view(" ...").size());
  }
};

// Innermost: "bench model", not "bench".
CLI::App* ParsedVerb(CLI::App& program) {
  CLI::App* app = &program;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
  }
  return app;
}

std::string Unexpected(const CLI::App& program, const CLI::App& verb, const std::string& word) {
  std::vector<std::string> flags;
  for (const CLI::App* app : {&verb, &program}) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        flags.push_back("--" + name);
      }
    }
  }
  const std::string name = word.substr(0, word.find('='));
  return word.starts_with('-') ? "there is no " + name + fak::cli::DidYouMean(name, flags)
                               : "\"" + word + "\" is one word too many";
}

// What was given more often than once, where once is all that is taken; empty: nothing.
std::string GivenTwice(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_items_expected_max() == 1 && option->count() > 1) {
      const bool model = option->check_lname("model");
      return option->get_name() +
             (model ? ": give the model once, not " + fak::Join(option->results(), " and ")
                    : ": is given more than once");
    }
  }
  return "";
}

// One line, and where to read on.
int Explain(CLI::App& program, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {  // --help, --version
    return program.exit(error);
  }
  const CLI::App& verb = *ParsedVerb(program);
  const std::string path = fak::cli::VerbPath(verb);
  const std::vector<std::string> extra = program.remaining(/*recurse=*/true);
  std::string what = error.what();
  if (!extra.empty()) {
    what = Unexpected(program, verb, extra.front());
  } else if (const auto inner = fak::cli::VerbNames(verb);
             !inner.empty() && error.get_name() == "RequiredError") {
    what = "needs a verb: " + fak::Join(inner, ", ");
  } else if (const std::string twice = GivenTwice(verb);
             !twice.empty() && error.get_name() == "ArgumentMismatch") {
    what = twice;
  }
  std::fprintf(stderr, "%s: %s\n%s --help says more\n", path.c_str(), what.c_str(), path.c_str());
  return kWrongUsage;
}

int Run(fak::cli::Program& program, const std::string& config_path,
        const std::vector<std::function<fak::cli::ExitStatus()>>& runs) {
  fak::cli::WarnOfUnknownVariables(program.app);
  program.file_path = fak::cli::ConfigPath(config_path);
  auto file = fak::cli::LoadConfigFile(program.file_path, !config_path.empty());
  if (!file) {
    fak::cli::PrintError(file.error());
    return kWrongUsage;
  }
  program.maybe_file = *std::move(file);
  if (const fak::Status applied =
          fak::cli::ApplyEnvironmentAndFile(*ParsedVerb(program.app), program.maybe_file);
      !applied) {
    fak::cli::PrintError(applied.error());
    return kWrongUsage;
  }
  const auto verbs = fak::cli::Verbs();
  for (size_t i = 0; i < verbs.size(); ++i) {
    if (program.app.get_subcommand(std::string(verbs[i].name))->parsed()) {
      return runs[i]();
    }
  }
  return kWrongUsage;
}

// Every verb's answer is on stdout: what couldn't be written is no answer.
int CheckOutput(int status) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || status != 0) {
    return status;
  }
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (errno == EPIPE || (poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0)) {
    return fak::cli::kReaderGone;  // without a word, as every program in a pipe
  }
  const std::string why = errno == 0 ? "it can't be written" : std::strerror(errno);
  std::fprintf(stderr, "fak: standard output: %s\n", why.c_str());
  return fak::cli::kFailed;
}

int ParseAndRun(int argc, char** argv) {
  CLI::App app("fak serves large language models: natively, or in front of other engines.", "fak");
  app.set_version_flag("--version", std::string("fak ") + fak::kVersion);
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.fallthrough();  // --config may also follow the verb
  std::string config_path;
  app.add_option("--config", config_path,
                 "TOML file with a table a verb, and replicas (default: ~/.config/fak/config.toml)")
      ->envname("FAK_CONFIG");
  app.footer(
      "fak help VERB, or fak VERB --help, shows a verb's flags and an example. Flags also come\n"
      "from FAK_<NAME> and the TOML file; FAK_CACHE is the folder of pulled models.");
  fak::cli::Program program{app};
  std::vector<std::function<fak::cli::ExitStatus()>> runs;
  for (const fak::cli::Verb& verb : fak::cli::Verbs()) {
    runs.push_back(verb.add(program));
  }
  AddSources(app);
  std::vector<std::string> words(argv + 1, argv + argc);
  TakeFlagsTypedAsVerbs(words);
  if (const std::string wrong = WrongVerb(app, words); !wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return kWrongUsage;
  }
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return Explain(app, error);
  }
  try {
    return Run(program, config_path, runs);
  } catch (const std::system_error& error) {  // std::thread has no other way to say it
    std::fprintf(stderr, "fak: the system starts no more threads: %s\n",
                 error.code().message().c_str());
    return fak::cli::kFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  fak::IgnoreWriteSignals();
  return CheckOutput(ParseAndRun(argc, argv));
}

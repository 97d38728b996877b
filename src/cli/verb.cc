#include "cli/verb.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/config.h"
#include "base/printable.h"
#include "cli/suggest.h"
#include "fleet/discovery.h"
#include "fleet/fleet_file.h"
#include "fleet/model_table.h"

namespace fak::cli {
namespace {

// "max-num-seqs" -> "FAK_MAX_NUM_SEQS".
std::string VariableOf(std::string_view name) {
  std::string variable = "FAK_";
  for (const char c : name) {
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return variable;
}

// All long names of a flag: each is one in the environment and the file too. Empty for --help,
// --version and plain words.
std::vector<std::string> NamesOf(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  const bool asks = !names.empty() && (names.front() == "help" || names.front() == "version");
  return asks ? std::vector<std::string>() : names;
}

Status Apply(CLI::Option& option, const std::vector<std::string>& values, Error error) {
  try {
    for (const std::string& value : values) {
      option.add_result(value);
    }
    option.run_callback();
  } catch (const CLI::Error& failed) {
    error.detail += ": " + std::string(failed.what());
    return Fail(std::move(error));
  }
  return {};
}

std::string DefaultConfigPath() {
  if (const char* base = std::getenv("XDG_CONFIG_HOME"); base != nullptr && *base != '\0') {
    return std::string(base) + "/fak/config.toml";
  }
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.config/fak/config.toml";
}

std::vector<std::string> FlagNames(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : NamesOf(*option)) {
      names.push_back(name);
    }
  }
  return names;
}

// Of all verbs, and those that are no flag's.
void AddVariables(const CLI::App& app, std::vector<std::string>& variables) {
  for (const std::string& name : FlagNames(app)) {
    variables.push_back(VariableOf(name));
  }
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    AddVariables(*verb, variables);
  }
}

// The variable that is set for it; empty: none is.
std::string SetVariable(const CLI::Option& option) {
  for (const std::string& name : NamesOf(option)) {
    std::string variable = VariableOf(name);
    if (std::getenv(variable.c_str()) != nullptr) {
      return variable;
    }
  }
  return "";
}

// Whether the environment had it.
Result<bool> TakeVariable(CLI::Option& option) {
  const std::string variable = SetVariable(option);
  if (variable.empty()) {
    return false;
  }
  TRY(Apply(option, {std::getenv(variable.c_str())}, {Code::kInvalidArgument, variable, variable}));
  return true;
}

bool IsSecret(std::string_view flag) {
  return flag.ends_with("api-key");
}

// A number would be read as another text than the one that was written.
Result<std::optional<std::vector<std::string>>> SecretTexts(const ConfigTable& table,
                                                            const std::string& name) {
  if (auto one = table.String(name)) {
    return *one ? std::optional(std::vector{**one}) : std::nullopt;
  }
  auto several = table.Strings(name);
  return several ? std::move(several)
                 : Fail(table.ErrorAt(name, "must be a string, in quotes, or an array of them"));
}

Status TakeKey(CLI::Option& option, const ConfigTable& table) {
  std::string taken;
  for (const std::string& name : NamesOf(option)) {
    TRY_ASSIGN(const auto values, IsSecret(name) ? SecretTexts(table, name) : table.Texts(name));
    if (!values || values->empty()) {
      continue;
    }
    if (!taken.empty()) {
      return Fail(table.ErrorAt(name, "is another name of " + taken + ", which is set too"));
    }
    taken = name;
    TRY(Apply(option, *values, table.ErrorAt(name, "wrong value")));
  }
  return {};
}

// A typo shall not pass for a default.
Status RefuseUnknownKeys(const ConfigTable& table, const std::vector<std::string>& known,
                         const std::string& what) {
  for (const std::string& key : table.Keys()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Fail(table.ErrorAt(key, what + DidYouMean(key, known)));
    }
  }
  return {};
}

// The verb's table, a step from the program's for each word of its path; nullopt when the file has
// none.
Result<std::optional<ConfigTable>> TableOf(const ConfigTable& file, const CLI::App& verb) {
  if (verb.get_parent() == nullptr) {
    std::vector<std::string> known = VerbNames(verb);
    known.emplace_back(fleet::kReplicaKey);
    known.emplace_back(fleet::kDiscoverKey);
    known.emplace_back(fleet::kModelKey);
    TRY(RefuseUnknownKeys(file, known, "no verb of fak has that name"));
    return file;
  }
  TRY_ASSIGN(const std::optional<ConfigTable> outer, TableOf(file, *verb.get_parent()));
  if (!outer) {
    return std::nullopt;
  }
  TRY_ASSIGN(std::optional<ConfigTable> table, outer->Table(verb.get_name()));
  if (!table) {
    return std::nullopt;
  }
  const std::vector<std::string> inner = VerbNames(verb);
  TRY(RefuseUnknownKeys(
      *table, inner.empty() ? FlagNames(verb) : inner,
      VerbPath(verb) + (inner.empty() ? " has no such flag" : " has no such verb")));
  return table;
}

}  // namespace

ExitStatus PrintError(const Error& error) {
  std::fprintf(stderr, "fak: %s\n", PrintableLines(error.detail).c_str());
  if (error.code == Code::kCancelled) {
    return kInterrupted;
  }
  const bool flag = error.code == Code::kInvalidArgument && error.field.starts_with("--");
  return flag ? kWrongUsage : kFailed;
}

std::string VerbPath(const CLI::App& verb) {
  return (verb.get_parent() == nullptr ? "" : VerbPath(*verb.get_parent()) + " ") + verb.get_name();
}

std::vector<std::string> VerbNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

std::string ConfigPath(const std::string& named) {
  return named.empty() ? DefaultConfigPath() : named;
}

Result<std::optional<ConfigTable>> LoadConfigFile(const std::string& path, bool named) {
  if (path.empty()) {
    return std::nullopt;
  }
  Result<ConfigTable> file = ConfigTable::Load(path);
  if (!file && file.error().code == Code::kNotFound && !named) {
    return std::nullopt;
  }
  return file;
}

Status ApplyEnvironmentAndFile(CLI::App& verb, const std::optional<ConfigTable>& maybe_file) {
  std::optional<ConfigTable> table;
  if (maybe_file) {
    TRY_ASSIGN(table, TableOf(*maybe_file, verb));
  }
  for (CLI::Option* option : verb.get_options([](const CLI::Option*) { return true; })) {
    if (option->count() > 0) {
      continue;
    }
    TRY_ASSIGN(const bool taken, TakeVariable(*option));
    if (!taken && table) {
      TRY(TakeKey(*option, *table));
    }
  }
  return {};
}

std::string SourceOf(const CLI::Option& option, bool typed) {
  const std::string name = NamesOf(option).front();
  if (typed) {
    return "--" + name;
  }
  const std::string variable = SetVariable(option);
  return variable.empty() ? name + " in the TOML file" : variable + " in the environment";
}

void WarnOfUnknownVariables(const CLI::App& program) {
  // The cache folder is the store's, FAK_SKIP_DEPS the Makefile's, which hands it on.
  std::vector<std::string> known = {"FAK_CACHE", "FAK_CUDA_GRAPHS", "FAK_CUDA_LIBRARY",
                                    "FAK_SKIP_DEPS"};
  AddVariables(program, known);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (name.starts_with("FAK_") && std::find(known.begin(), known.end(), name) == known.end()) {
      std::fprintf(stderr, "fak: no flag listens to %s in the environment%s\n", name.c_str(),
                   DidYouMean(name, known).c_str());
    }
  }
}

}  // namespace fak::cli

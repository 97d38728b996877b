#include "cli/verb.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>

#include "base/config.h"
#include "base/strings.h"

namespace fak::cli {
namespace {

// "--max-num-seqs" -> "FAK_MAX_NUM_SEQS".
std::string VariableOf(const CLI::Option& option) {
  std::string name = "FAK_";
  for (const char c : option.get_lnames().front()) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// A value of the file as the command line would have it.
Result<std::vector<std::string>> TextsAt(const ConfigTable& table, std::string_view key) {
  if (const auto text = table.String(key); text && *text) {
    return std::vector<std::string>{**text};
  }
  if (const auto texts = table.Strings(key); texts && *texts) {
    return **texts;
  }
  if (const auto flag = table.Bool(key); flag && *flag) {
    return std::vector<std::string>{**flag ? "true" : "false"};
  }
  if (const auto number = table.Int(key); number && *number) {
    return std::vector<std::string>{std::to_string(**number)};
  }
  TRY_ASSIGN(const auto number, table.Float(key));
  return number ? std::vector<std::string>{std::to_string(*number)} : std::vector<std::string>{};
}

Status Apply(CLI::Option& option, const std::vector<std::string>& values, const Error& error) {
  try {
    for (const std::string& value : values) {
      option.add_result(value);
    }
    option.run_callback();
  } catch (const CLI::Error& failed) {
    return Fail(Within(failed.what(), error));
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

Result<std::optional<ConfigTable>> LoadTable(const std::string& config_path,
                                             const std::string& verb) {
  const std::string path = config_path.empty() ? DefaultConfigPath() : config_path;
  if (path.empty()) {
    return std::nullopt;
  }
  Result<ConfigTable> file = ConfigTable::Load(path);
  if (!file) {
    if (file.error().code == Code::kNotFound && config_path.empty()) {
      return std::nullopt;
    }
    return Fail(std::move(file).error());
  }
  return file->Table(verb);
}

}  // namespace

ExitStatus PrintError(const Error& error) {
  std::fprintf(stderr, "fak: %s\n", error.detail.c_str());
  return 1;
}

Status ApplyEnvironmentAndFile(CLI::App& verb, const std::string& config_path) {
  TRY_ASSIGN(const std::optional<ConfigTable> table, LoadTable(config_path, verb.get_name()));
  std::vector<std::string> known;
  for (CLI::Option* option : verb.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") {
      continue;
    }
    const std::string& name = option->get_lnames().front();
    known.push_back(name);
    if (option->count() > 0) {
      continue;
    }
    const std::string variable = VariableOf(*option);
    if (const char* value = std::getenv(variable.c_str()); value != nullptr) {
      TRY(Apply(*option, {value}, {Code::kInvalidArgument, variable, variable}));
    } else if (table) {
      TRY_ASSIGN(const std::vector<std::string> values, TextsAt(*table, name));
      if (!values.empty()) {
        TRY(Apply(*option, values, table->ErrorAt(name, "wrong value")));
      }
    }
  }
  if (table) {
    for (const std::string& key : table->Keys()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        return Fail(table->ErrorAt(key, "fak " + verb.get_name() + " has no --" + key));
      }
    }
  }
  return {};
}

}  // namespace fak::cli

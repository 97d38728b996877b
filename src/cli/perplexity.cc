#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/printable.h"
#include "cli/engine_flags.h"
#include "cli/interruptible.h"
#include "cli/number_flag.h"
#include "cli/progress.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "engine/perplexity.h"
#include "text/tokenizer.h"

namespace fak::cli {
namespace {

struct PerplexityFlags {
  EngineFlags engine;
  std::string file;
  uint32_t window = 512;
  bool json = false;
};

Status Measure(PerplexityFlags flags) {
  const Interruptible interruptible;
  TRY_ASSIGN(const std::string text, ReadFile(flags.file, limits::kTextInputBytesMax));
  TRY(CheckUtf8(flags.file, text));
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  // One sequence, but as many rows whose logits are wanted.
  flags.engine.max_num_seqs =
      std::min(flags.engine.max_num_seqs, flags.engine.max_num_batched_tokens);
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(flags.engine, model));
  const std::vector<int32_t> tokens = loaded.card->tokenizer->Encode(text);
  ProgressBar bar;
  TRY_ASSIGN(const engine::PerplexityReport report,
             engine::MeasurePerplexity(
                 loaded, tokens, flags.window, [&bar](uint32_t done, uint32_t all, double so_far) {
                   char what[64];
                   std::snprintf(what, sizeof what, "perplexity %.4f", so_far);
                   bar.ShowCount(what, done, all);
                 }));
  bar.Finish();
  if (flags.json) {
    std::string out;
    JsonWriter json(out);
    json.BeginObject().Key("model").String(model.name).Key("perplexity").Double(report.perplexity);
    json.Key("standard_error").Double(report.error).Key("tokens_scored").Uint(report.scored);
    json.Key("windows").Uint(report.windows).Key("window").Uint(flags.window).EndObject();
    std::printf("%s\n", out.c_str());
  } else {
    std::printf("perplexity %.4f +/- %.4f (%s, %u windows of %u tokens, %llu scored)\n",
                report.perplexity, report.error, Printable(model.name).c_str(), report.windows,
                flags.window, static_cast<unsigned long long>(report.scored));
  }
  return {};
}

}  // namespace

std::function<ExitStatus()> AddPerplexity(Program& program) {
  CLI::App* verb = program.app.add_subcommand(
      "perplexity", "How well a model predicts a text, as llama.cpp measures it");
  const auto flags = std::make_shared<PerplexityFlags>();
  verb->add_option("model", flags->engine.model,
                   "Model: a path, an alias (fak list), hf:, pypi: or https:")
      ->required();
  verb->add_option("file", flags->file, "Text file, in UTF-8")->required();
  flags->engine.AddStepRows(*verb);
  flags->engine.AddMemory(*verb);
  flags->engine.AddMachine(*verb);
  verb->add_option("--window", flags->window, "Tokens a window; the second half is scored")
      ->check(WholeWithin({.least = 4, .most = limits::kContextMax}))
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->footer("Example, with any text file:\n  fak perplexity smollm2 LICENSE --window 128");
  return [flags]() -> ExitStatus {
    const Status measured = Measure(*flags);
    return measured ? 0 : PrintError(measured.error());
  };
}

}  // namespace fak::cli

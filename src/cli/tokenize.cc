#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>

#include "base/json.h"
#include "base/utf8.h"
#include "cli/engine_flags.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "model/card.h"
#include "text/tokenizer.h"

namespace fak::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  bool text_was_given = false;  // be it empty
  bool no_special = false;
  bool no_parse_special = false;
  bool ids_only = false;
  bool json = false;
};

Status Tokenize(const TokenizeFlags& flags) {
  std::string text = flags.text;
  if (!flags.text_was_given) {
    TRY_ASSIGN(text, ReadStandardInput());
  }
  std::string path = flags.model;
  if (!path.ends_with(".json")) {
    TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.model));
    path = model.path;
  }
  TRY_ASSIGN(const auto card, model::CardLoader().Load(path, std::nullopt));
  PrintNotes(card->notes);
  const text::Tokenizer& tokenizer = *card->tokenizer;
  if (const size_t lost = tokenizer.LostBytes(text); lost > 0) {
    std::fprintf(stderr,
                 "fak: %zu byte%s of the text without a token in this vocabulary: dropped\n", lost,
                 lost == 1 ? "" : "s");
  }
  const std::vector<int32_t> ids = tokenizer.Encode(
      text, {.add_special = !flags.no_special, .parse_special = !flags.no_parse_special});
  std::string out;
  if (flags.json || flags.ids_only) {
    JsonWriter json(out);
    json.BeginArray();
    for (const int32_t id : ids) {
      if (flags.ids_only) {
        json.Int(id);
        continue;
      }
      json.BeginObject().Key("id").Int(id);
      json.Key("text").String(ReplaceInvalidUtf8(tokenizer.TokenBytes(id))).EndObject();
    }
    json.EndArray();
    std::printf("%s\n", out.c_str());
    return {};
  }
  for (const int32_t id : ids) {
    std::string shown;
    AppendJsonString(shown, ReplaceInvalidUtf8(tokenizer.TokenBytes(id)));
    std::printf("%8d  %s\n", id, shown.c_str());
  }
  std::fprintf(stderr, "%zu tokens\n", ids.size());
  return {};
}

}  // namespace

std::function<ExitStatus()> AddTokenize(Program& program) {
  CLI::App* verb = program.app.add_subcommand("tokenize", "Show a text's tokens");
  const auto flags = std::make_shared<TokenizeFlags>();
  verb->add_option("model", flags->model, "Model, or a tokenizer.json")->required();
  verb->add_option("text", flags->text, "Text (default: standard input)");
  verb->add_flag("--no-special", flags->no_special, "Add no BOS or EOS");
  verb->add_flag("--no-parse-special", flags->no_parse_special,
                 "Take \"<|im_end|>\" and the like for plain text");
  verb->add_flag("--ids", flags->ids_only, "Print the ids alone, as a JSON list");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->footer(
      "The text may be any bytes: in most vocabularies those that aren't UTF-8 have tokens too, "
      "and "
      "come\n"
      "back from them. How many have none, and are dropped, is said.\n"
      "Example:\n  fak tokenize smollm2 'Hello world' --json");
  verb->parse_complete_callback(
      [verb, flags] { flags->text_was_given = verb->get_option("text")->count() > 0; });
  return [flags]() -> ExitStatus {
    const Status done = Tokenize(*flags);
    return done ? 0 : PrintError(done.error());
  };
}

}  // namespace fak::cli

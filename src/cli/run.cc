#include <CLI/CLI.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/clock.h"
#include "base/random.h"
#include "base/sampling_ranges.h"
#include "base/signal.h"
#include "cli/chat.h"
#include "cli/engine_flags.h"
#include "cli/first_word.h"
#include "cli/number_flag.h"
#include "cli/text_input.h"
#include "cli/verbs.h"
#include "hub/store.h"

namespace fak::cli {
namespace {

struct RunFlags {
  EngineFlags engine;
  bool model_was_typed = false;     // on the command line, as --model
  std::vector<std::string> prompt;  // words; joined by blanks
  ChatOptions chat;
};

// What to type where the first word was meant as the prompt, or its beginning.
std::string HowToAsk(const std::string& first, size_t words) {
  if (words == 1) {
    return "; to ask just that, name the model too: fak run --model " +
           std::string(hub::kDefaultModel) + " \"" + first + "\"";
  }
  return std::string(words == 2 ? ", and of two words the first is the model" : "") +
         "; a prompt of several words goes in quotes, as one: fak run \"" + first + " ...\"";
}

// Which of the words are the prompt. A first word that names a model is one, whatever the
// environment and the file say.
Status SplitPrompt(RunFlags& flags) {
  if (flags.prompt.empty()) {
    return {};
  }
  const std::string& first = flags.prompt.front();
  const size_t words = flags.prompt.size();
  const FirstWord read = ReadFirstWord(first, words);
  if (read.kind == FirstWord::Kind::kModel) {
    if (flags.model_was_typed) {
      return Fail(Code::kInvalidArgument,
                  "\"" + first + "\" and --model " + flags.engine.model +
                      ": give the model once (a prompt in quotes may begin with its name)",
                  "--model");
    }
    flags.engine.model = first;
    flags.prompt.erase(flags.prompt.begin());
  } else if (!flags.model_was_typed && !read.note.empty()) {
    if (read.kind == FirstWord::Kind::kNoModel) {
      return Fail(Code::kInvalidArgument, read.note + HowToAsk(first, words));
    }
    std::fprintf(stderr, "fak: taken as a prompt: %s\n", read.note.c_str());
  }
  return {};
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

Status Run(RunFlags flags) {
  TRY(SplitPrompt(flags));
  std::string prompt = JoinWords(flags.prompt);
  TRY(CheckUtf8("the prompt", prompt));
  TRY(CheckUtf8("--system", flags.chat.system));
  if (isatty(STDIN_FILENO) == 0) {
    const Result<std::string> piped = ReadStandardInput();
    // A closed one is nothing to stop for.
    if (!piped && (prompt.empty() || piped.error().code != Code::kNotFound)) {
      return Fail(piped.error());
    }
    TRY(CheckUtf8("standard input", piped.value_or("")));
    prompt += (prompt.empty() || piped.value_or("").empty() ? "" : "\n\n") + piped.value_or("");
    if (prompt.empty()) {
      return Fail(Code::kInvalidArgument, "no prompt: give one, or pipe one in");
    }
  }
  Interrupts interrupts;
  const SignalWatcher watcher({SIGINT}, [&interrupts](int) { interrupts.OnSignal(); });
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model, &interrupts.stop()));
  interrupts.Enter(Interrupts::Stage::kLoading);
  flags.engine.max_num_seqs = 1;
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(flags.engine, model));
  if (!flags.chat.system.empty() && loaded.card->maybe_chat_template == nullptr) {
    return Fail(Code::kInvalidArgument,
                "--system: this model has no chat template that a system message could stand in; "
                "--chat-template gives it one",
                "--system");
  }
  flags.chat.model = model.name;
  Chat chat(std::move(loaded), flags.chat, interrupts);
  return prompt.empty() ? chat.Converse() : chat.AnswerOnce(prompt);
}

void AddSampling(CLI::App& verb, wire::SamplingParams& sampling) {
  verb.add_option("--temp,--temperature", sampling.temperature,
                  "Temperature; 0: greedy (default: the model's, else 1.0)")
      ->check(Within(sampling_ranges::kTemperature));
  verb.add_option("--top-p", sampling.top_p, "Nucleus (default: the model's, else 1.0: off)")
      ->check(Within(sampling_ranges::kTopP));
  verb.add_option("--top-k", sampling.top_k,
                  "The k likeliest tokens only (default: the model's, else all)")
      ->check(WholeWithin(sampling_ranges::kTopK));
  verb.add_option(
          "--min-p", sampling.min_p,
          "Tokens at least this likely, to the likeliest (default: the model's, else 0: off)")
      ->check(Within(sampling_ranges::kMinP));
  AddSeed(
      verb, [&sampling](std::optional<uint64_t> seed) { sampling.seed = seed; },
      "Seed (default, and -1: a new one each time)");
  verb.add_option("--max-tokens,-n", sampling.max_tokens,
                  "Tokens of an answer at most (default: what the context holds)")
      ->check(WholeWithin(sampling_ranges::kMaxTokens));
}

}  // namespace

std::function<ExitStatus()> AddRun(Program& program) {
  CLI::App* verb = program.app.add_subcommand("run", "Chat in the terminal, or answer one prompt");
  const auto flags = std::make_shared<RunFlags>();
  verb->add_option(
      "--model", flags->engine.model,
      "Model, unless the first word names one: a path, an alias (fak list), hf:, pypi: "
      "or https:");
  EngineFlags& engine = flags->engine;
  engine.AddChatTemplate(*verb);
  engine.AddStepRows(*verb);
  engine.AddScheduling(*verb);
  engine.AddMemory(*verb);
  engine.AddMachine(*verb);
  ChatOptions& chat = flags->chat;
  verb->add_option("prompt", flags->prompt,
                   "[MODEL] and the prompt, in quotes; none: a chat, or what is piped in");
  verb->add_option("--system", chat.system, "System message");
  AddSampling(*verb, chat.sampling);
  verb->add_flag("--stats", chat.stats, "Speed and token counts after each answer");
  verb->footer(
      "Prompts must be UTF-8.\n"
      "Examples:\n"
      "  fak run                                chat with the default model\n"
      "  fak run \"Why is the sky blue?\"         one answer\n"
      "  fak run smollm2 \"Why is it blue?\"      of two words the first is the model\n"
      "  echo 'Summarise: ...' | fak run smollm2 --temp 0 --stats");
  verb->parse_complete_callback(
      [verb, flags] { flags->model_was_typed = verb->get_option("--model")->count() > 0; });
  return [flags]() -> ExitStatus {
    const Status ran = Run(*flags);
    return ran ? 0 : PrintError(ran.error());
  };
}

}  // namespace fak::cli

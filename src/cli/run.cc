#include <CLI/CLI.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/signal.h"
#include "cli/chat.h"
#include "cli/engine_flags.h"
#include "cli/verbs.h"

namespace fak::cli {
namespace {

struct RunFlags {
  EngineFlags engine;
  std::vector<std::string> prompt;  // words; joined by blanks
  ChatOptions chat;
};

// A first word that names a model is one; else it begins the prompt and the default model answers.
void SplitPrompt(RunFlags& flags) {
  std::string& first = flags.engine.model;
  if (first.empty() || !LooksLikeModel(first)) {
    if (!first.empty()) {
      flags.prompt.insert(flags.prompt.begin(), first);
      first.clear();
    }
  }
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

Status Run(RunFlags flags) {
  SplitPrompt(flags);
  std::string prompt = JoinWords(flags.prompt);
  if (isatty(STDIN_FILENO) == 0) {
    TRY_ASSIGN(const std::string piped, ReadFile("/dev/stdin", limits::kTextInputBytesMax));
    prompt += (prompt.empty() || piped.empty() ? "" : "\n\n") + piped;
    if (prompt.empty()) {
      return Fail(Code::kInvalidArgument, "no prompt: give one, or pipe one in");
    }
  }
  // Before any thread starts: an answer is stopped by Ctrl-C, the program is not.
  std::atomic<bool> interrupted{false};
  const SignalWatcher watcher({SIGINT}, [&interrupted](int) { interrupted.store(true); });
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  flags.engine.max_num_seqs = 1;
  TRY_ASSIGN(engine::LoadedEngine loaded, LoadModel(flags.engine, model));
  Chat chat(std::move(loaded), flags.chat, interrupted);
  return prompt.empty() ? chat.Converse() : chat.AnswerOnce(prompt);
}

}  // namespace

std::function<ExitStatus()> AddRun(CLI::App& program) {
  CLI::App* verb = program.add_subcommand("run", "Chat in the terminal, or answer one prompt");
  const auto flags = std::make_shared<RunFlags>();
  flags->engine.Add(*verb);
  ChatOptions& chat = flags->chat;
  verb->add_option("prompt", flags->prompt, "The prompt; none: a chat, or what is piped in");
  verb->add_option("--system", chat.system, "System message");
  verb->add_option("--temp,--temperature", chat.sampling.temperature, "Temperature; 0: greedy");
  verb->add_option("--top-p", chat.sampling.top_p, "Nucleus");
  verb->add_option("--top-k", chat.sampling.top_k, "The k likeliest tokens only");
  verb->add_option("--min-p", chat.sampling.min_p, "Tokens at least this likely, to the likeliest");
  verb->add_option("--seed", chat.sampling.seed, "Seed (default: a new one each time)");
  verb->add_option("--max-tokens,-n", chat.sampling.max_tokens, "Tokens of an answer at most");
  verb->add_flag("--stats", chat.stats, "Speed and token counts after each answer");
  verb->footer(
      "Examples:\n"
      "  fak run                                chat with the default model\n"
      "  fak run \"Why is the sky blue?\"         one answer\n"
      "  echo 'Summarise: ...' | fak run smollm2 --temp 0 --stats");
  return [flags]() -> ExitStatus {
    const Status ran = Run(*flags);
    return ran ? 0 : PrintError(ran.error());
  };
}

}  // namespace fak::cli

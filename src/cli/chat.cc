#include "cli/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/strings.h"
#include "cli/text_input.h"
#include "cli/verb.h"
#include "gateway/prepare.h"

namespace fak::cli {

namespace {

// What a terminal without line editing sends for arrow keys and the like is no text.
std::string WithoutEscapes(std::string_view line) {
  constexpr char kEscape = 0x1b;
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != kEscape) {
      text += line[i];
      continue;
    }
    const char kind = i + 1 < line.size() ? line[i + 1] : '\0';
    i += kind == '\0' ? 0 : 1;
    if (kind == 'O') {  // and one letter
      ++i;
    } else if (kind == '[') {  // and parameters up to a letter or ~
      do {
        ++i;
      } while (i < line.size() && (line[i] < '@' || line[i] > '~'));
    }
  }
  return text;
}

}  // namespace

void Interrupts::Enter(Stage stage) {
  stop_.store(false);
  stage_.store(stage);
}

void Interrupts::OnSignal() {
  const Stage stage = stage_.load();
  if (stage == Stage::kPrompting) {
    std::fprintf(stderr, "\n(/exit or Ctrl-D leaves)\n> ");
  } else if (stage == Stage::kLoading || stop_.exchange(true)) {
    std::fputc('\n', stderr);
    std::_Exit(kInterrupted);  // nothing is held that others could see half done
  }
}

// Writes text as it comes; keeps it, and the figures.
class Chat::Printer final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
      if (first_ns_ == 0) {
        first_ns_ = Clock::Real().NowNs();
      }
      usage_.completion_tokens += static_cast<int32_t>(text->tokens.size());
      answer_ += text->text;
      const std::string shown = to_terminal_ ? PrintableLines(text->text) : text->text;
      if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() ||
          std::fflush(stdout) != 0) {
        reader_gone_ = reader_gone_ || errno == EPIPE;
        unwritten_ = unwritten_ ? unwritten_ : ErrnoError(errno, "standard output");
      }
    } else if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
      usage_ = usage->usage;
    } else if (const auto* started = std::get_if<wire::Started>(&event)) {
      usage_.prompt_tokens = started->prompt_tokens;
      usage_.cached_tokens = started->cached_tokens;
    } else if (const auto* failed = std::get_if<wire::Failed>(&event)) {
      if (failed->error.code != Code::kCancelled) {
        error_ = failed->error;
      }
      ended_ = true;
    } else if (std::holds_alternative<wire::Done>(event)) {
      ended_ = true;
    }
  }

  bool ended() const { return ended_; }
  // Why the answer can't be written: the pipe was closed, the disk is full.
  const std::optional<Error>& unwritten() const { return unwritten_; }
  bool reader_gone() const { return reader_gone_; }
  const std::optional<Error>& error() const { return error_; }
  std::string TakeAnswer() { return std::move(answer_); }

  // A speed needs two tokens; an interrupted answer has the figures of what came.
  void PrintStats(int64_t started_ns, bool interrupted) const {
    std::string line = std::to_string(usage_.prompt_tokens) + " prompt tokens, " +
                       std::to_string(std::max(0, usage_.cached_tokens)) + " cached";
    if (first_ns_ != 0) {
      line += ", first token after " + FormatDuration(first_ns_ - started_ns) + "; " +
              std::to_string(usage_.completion_tokens) + " tokens";
      const double decode_s = static_cast<double>(Clock::Real().NowNs() - first_ns_) / 1e9;
      if (usage_.completion_tokens > 1 && decode_s > 0.0) {
        line += fmt::format(", {:.1f}/s", (usage_.completion_tokens - 1) / decode_s);
      }
    }
    std::fprintf(stderr, "[%s%s]\n", line.c_str(), interrupted ? "; interrupted" : "");
  }

 private:
  const bool to_terminal_ = isatty(STDOUT_FILENO) == 1;
  std::string answer_;
  wire::Usage usage_;
  int64_t first_ns_ = 0;
  std::optional<Error> error_;
  std::optional<Error> unwritten_;
  bool reader_gone_ = false;
  bool ended_ = false;
};

Chat::Chat(engine::LoadedEngine engine, ChatOptions options, Interrupts& interrupts)
    : options_(std::move(options)),
      interrupts_(interrupts),
      driver_(std::move(engine), {.served_names = {}}, Clock::Real(), RandomSource::Real(),
              nullptr) {
  if (!options_.system.empty()) {
    history_.push_back(Json::Object{{"role", "system"}, {"content", options_.system}});
  }
}

Result<std::string> Chat::Answer(const std::string& prompt) {
  const text::ModelCard& card = *driver_.engine().card;
  auto turn = std::make_shared<wire::Turn>();
  turn->sampling = options_.sampling;
  if (card.maybe_chat_template != nullptr) {
    Json::Array messages = history_;
    messages.push_back(Json::Object{{"role", "user"}, {"content", prompt}});
    turn->messages = Json(std::move(messages));
  } else {
    if (turns_ == 0) {
      std::fprintf(stderr, "fak: this model has no chat template: it continues your text\n");
    }
    turn->surface = wire::Surface::kCompletion;
    turn->prompts.push_back({prompt, {}, false});
  }
  const std::string id = "turn-" + std::to_string(turns_++);
  const int64_t started_ns = Clock::Real().NowNs();
  gateway::RequestContext context;
  context.request_id = id;
  context.arrival_ns = started_ns;
  context.wall_ns = Clock::Real().WallNs();
  TRY_ASSIGN(const auto prepared,
             gateway::Prepare(turn, std::make_shared<const Json>(), &card,
                              driver_.capabilities()->context_length, context));
  const auto printer = std::make_shared<Printer>();
  interrupts_.Enter(Interrupts::Stage::kAnswering);
  TRY(driver_.Admit(prepared, printer));
  while (!printer->ended()) {
    if (interrupts_.stop().load() || printer->unwritten()) {
      driver_.Cancel(id);
    }
    driver_.Step();
  }
  if (printer->reader_gone()) {
    std::_Exit(kReaderGone);  // without a word, as every program in a pipe
  }
  if (printer->unwritten()) {
    return Fail(*printer->unwritten());
  }
  std::fputc('\n', stdout);
  std::fflush(stdout);
  if (printer->error()) {
    return Fail(*printer->error());
  }
  if (options_.stats) {
    printer->PrintStats(started_ns, interrupts_.stop().load());
  }
  return printer->TakeAnswer();
}

Status Chat::AnswerOnce(const std::string& prompt) {
  TRY(Answer(prompt));
  if (interrupts_.stop().load()) {
    return Fail(Code::kCancelled, "interrupted");
  }
  return {};
}

Status Chat::Command(std::string_view line, bool& leave) {
  if (line == "/exit" || line == "/quit" || line == "/bye") {
    leave = true;
  } else if (line == "/clear") {
    history_.resize(options_.system.empty() ? 0 : 1);
    std::fprintf(stderr, "(history cleared)\n");
  } else {
    if (line != "/help" && line != "/?") {
      std::fprintf(stderr, "fak: there is no %s; there are:\n", Printable(line).c_str());
    }
    std::fprintf(stderr,
                 "/clear  forget the conversation\n/exit   leave (also Ctrl-D)\n"
                 "A line that ends in \\ goes on in the next one\n"
                 "Ctrl-C stops an answer\n");
  }
  return {};
}

// A prompt: a line, and the next one where it ends in a backslash. False at the end of the input.
bool Chat::ReadPrompt(std::string& prompt) {
  prompt.clear();
  std::string line;
  for (const char* ask = "> "; std::fputs(ask, stderr), std::getline(std::cin, line); ask = ". ") {
    line = WithoutEscapes(line);
    const bool goes_on = line.ends_with('\\');
    if (!goes_on) {
      prompt += line;
      return true;
    }
    line.back() = '\n';
    prompt += line;
  }
  return !prompt.empty();
}

Status Chat::Converse() {
  std::fprintf(stderr, "Chat with %s. /help for commands.\n", Printable(options_.model).c_str());
  std::string line;
  while (true) {
    interrupts_.Enter(Interrupts::Stage::kPrompting);
    if (!ReadPrompt(line)) {
      std::fputc('\n', stderr);
      return {};
    }
    if (Trim(line).empty()) {
      continue;
    }
    if (line.front() == '/') {
      bool leave = false;
      TRY(Command(Trim(line), leave));
      if (leave) {
        return {};
      }
      continue;
    }
    const Status is_text = CheckUtf8("the prompt", line);
    Result<std::string> answer = is_text ? Answer(line) : Fail(is_text.error());
    if (!answer) {
      std::fprintf(
          stderr, "fak: %s%s\n", PrintableLines(answer.error().detail).c_str(),
          answer.error().code == Code::kContextTooLong ? " (/clear forgets the conversation)" : "");
      continue;
    }
    history_.push_back(Json::Object{{"role", "user"}, {"content", line}});
    history_.push_back(Json::Object{{"role", "assistant"}, {"content", *std::move(answer)}});
  }
}

}  // namespace fak::cli

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "engine/native_driver.h"
#include "wire/turn.h"

namespace fak::cli {

struct ChatOptions {
  std::string model;  // its id, for a person
  std::string system;
  wire::SamplingParams sampling;
  bool stats = false;
};

// What Ctrl-C does: it ends a pull (which goes on another time) and the loading of a model, stops
// an answer but not the program, and says at the prompt how to leave. A second one, while an answer
// is slow to stop, ends the program. Any thread.
class Interrupts {
 public:
  enum class Stage { kPulling, kLoading, kAnswering, kPrompting };

  void Enter(Stage stage);
  // Ends the program or sets stop(), on the thread of the signals.
  void OnSignal();
  // Whether what is going on shall stop. Enter() clears it.
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  std::atomic<Stage> stage_{Stage::kPulling};
  std::atomic<bool> stop_{false};
};

// Prompts and answers in the terminal, over an engine in this process that this thread steps. A
// model without a chat template completes the text, and says so once.
class Chat {
 public:
  Chat(engine::LoadedEngine engine, ChatOptions options, Interrupts& interrupts);

  // Writes the answer to stdout. kCancelled when it was interrupted, after what came before that.
  [[nodiscard]] Status AnswerOnce(const std::string& prompt);
  // Reads prompts until end of file or /exit.
  [[nodiscard]] Status Converse();

 private:
  class Printer;
  // Streams the answer to stdout; also gives it, as far as it came when it was interrupted.
  Result<std::string> Answer(const std::string& prompt);
  bool ReadPrompt(std::string& prompt);
  Status Command(std::string_view line, bool& leave);

  const ChatOptions options_;
  Interrupts& interrupts_;
  engine::NativeDriver driver_;
  Json::Array history_;
  uint64_t turns_ = 0;
};

}  // namespace fak::cli

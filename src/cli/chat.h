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
  std::string system;
  wire::SamplingParams sampling;
  bool stats = false;
};

// Whether a word is a reference to a model (a path to a .gguf, an alias, hf:, pypi:, https:).
bool LooksLikeModel(std::string_view word);

// Prompts and answers in the terminal, over an engine in this process that this thread steps. A
// model without a chat template completes the text, and says so once.
class Chat {
 public:
  // interrupted: set by Ctrl-C; stops the answer that is being written.
  Chat(engine::LoadedEngine engine, ChatOptions options, std::atomic<bool>& interrupted);

  // Writes the answer to stdout.
  [[nodiscard]] Status AnswerOnce(const std::string& prompt);
  // Reads prompts until end of file or /exit.
  [[nodiscard]] Status Converse();

 private:
  class Printer;
  Result<std::string> Answer(const std::string& prompt);
  Status Command(std::string_view line, bool& leave);

  const ChatOptions options_;
  std::atomic<bool>& interrupted_;
  engine::NativeDriver driver_;
  Json::Array history_;
  uint64_t turns_ = 0;
};

}  // namespace fak::cli

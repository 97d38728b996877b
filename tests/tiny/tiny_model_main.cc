// fak-tiny-model FAMILY TYPE OUT.gguf [--seed N] [--tied] [--rope none|linear|yarn|llama3]
// [--sentence-piece] [--deep] [--small] [--split PARTS]
// Writes a tiny model with random weights (tiny_model.h). With --split, OUT is the prefix of the
// parts.
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tiny/tiny_model.h"

namespace {

using fak::Code;
using fak::Fail;
using fak::Result;
using fak::Status;
using fak::tiny::TinyOptions;

struct Command {
  TinyOptions options;
  std::string path;
  uint16_t parts = 0;  // 0: not split
};

template <class T>
Result<T> Number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Fail(Code::kInvalidArgument, std::string(text) + " isn't a number");
  }
  return value;
}

Status ParseOption(std::string_view name, std::string_view value, Command& command) {
  if (name == "--seed") {
    TRY_ASSIGN(command.options.seed, Number<uint64_t>(value));
  } else if (name == "--split") {
    TRY_ASSIGN(command.parts, Number<uint16_t>(value));
  } else if (name == "--rope") {
    const auto scaling = fak::tiny::FindRopeScaling(value);
    if (!scaling) {
      return Fail(Code::kInvalidArgument, "no RoPE scaling is called " + std::string(value));
    }
    command.options.rope_scaling = *scaling;
  } else {
    return Fail(Code::kInvalidArgument, "no option is called " + std::string(name));
  }
  return {};
}

Result<Command> Parse(const std::vector<std::string_view>& words) {
  Command command;
  std::vector<std::string_view> positional;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      positional.push_back(words[i]);
    } else if (words[i] == "--tied") {
      command.options.tied = true;
    } else if (words[i] == "--deep") {
      command.options.deep = true;
    } else if (words[i] == "--small") {
      command.options.small = true;
    } else if (words[i] == "--sentence-piece") {
      command.options.sentence_piece = true;
    } else {
      const std::string_view value = i + 1 < words.size() ? words[i + 1] : std::string_view();
      TRY(ParseOption(words[i], value, command));
      ++i;
    }
  }
  if (positional.size() != 3) {
    return Fail(Code::kInvalidArgument,
                "usage: fak-tiny-model FAMILY TYPE OUT.gguf [--seed N] [--tied] "
                "[--rope none|linear|yarn|llama3] [--sentence-piece] [--deep] [--small] "
                "[--split PARTS]");
  }
  const auto family = fak::tiny::FindFamily(positional[0]);
  const auto mix = fak::tiny::FindTypeMix(positional[1]);
  if (!family || !mix) {
    return Fail(Code::kInvalidArgument,
                "families: llama qwen2 qwen3 qwen3moe gemma3; types: F32, Q4_K, ...");
  }
  command.options.family = *family;
  command.options.mix = *mix;
  command.path = positional[2];
  return command;
}

Status Run(const std::vector<std::string_view>& words) {
  TRY_ASSIGN(const Command command, Parse(words));
  if (command.parts > 0) {
    return fak::tiny::MakeTinyModel(command.options).WriteSplit(command.path, command.parts);
  }
  return fak::tiny::WriteTinyModel(command.options, command.path);
}

}  // namespace

int main(int argc, char** argv) {
  const Status done = Run({argv + 1, argv + argc});
  if (!done) {
    std::fprintf(stderr, "fak-tiny-model: %s\n", done.error().detail.c_str());
    return 1;
  }
  return 0;
}

// dump_logits MODEL.gguf OUT.f32 f16|bf16|f32 TOKEN...
// Writes the logits of every position of a prompt, a row of f32 each.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/strings.h"
#include "tests/logits/prompt_run.h"

namespace {

using fak::Code;
using fak::Fail;
using fak::Result;
using fak::Status;
using fak::tensor::KvType;

Result<std::vector<int32_t>> Tokens(const std::vector<std::string_view>& words) {
  std::vector<int32_t> tokens;
  for (const std::string_view word : words) {
    const std::optional<int64_t> id = fak::ParseInt(word);
    if (!id || *id < 0 || *id > INT32_MAX) {
      return Fail(Code::kInvalidArgument, std::string(word) + " is no token id");
    }
    tokens.push_back(static_cast<int32_t>(*id));
  }
  return tokens;
}

Status Run(const std::vector<std::string_view>& words) {
  if (words.size() < 4) {
    return Fail(Code::kInvalidArgument,
                "usage: dump_logits MODEL.gguf OUT.f32 f16|bf16|f32 TOKEN...");
  }
  const KvType kv = words[2] == "f32"    ? KvType::kF32
                    : words[2] == "bf16" ? KvType::kBf16
                                         : KvType::kF16;
  TRY_ASSIGN(const std::vector<int32_t> tokens, Tokens({words.begin() + 3, words.end()}));
  TRY_ASSIGN(fak::engine::LoadedEngine engine,
             fak::logits::Load(std::string(words[0]),
                               {.kv = kv, .tokens_max = static_cast<uint32_t>(tokens.size())}));
  for (const int32_t id : tokens) {
    if (static_cast<uint32_t>(id) >= engine.shape.vocabulary) {
      return Fail(Code::kInvalidArgument, std::to_string(id) + " is no token of the model");
    }
  }
  TRY_ASSIGN(const fak::engine::Trace trace,
             fak::logits::RunPrompt(engine, tokens, fak::logits::Rows::kAll));
  return fak::WriteFileAtomically(std::string(words[1]), fak::BytesOf(std::span(trace.logits)));
}

}  // namespace

int main(int argc, char** argv) {
  const Status done = Run({argv + 1, argv + argc});
  if (!done) {
    std::fprintf(stderr, "dump_logits: %s\n", done.error().detail.c_str());
    return 1;
  }
  return 0;
}

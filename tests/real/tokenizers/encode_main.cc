// Encodes files with the tokenizer of a model: what check.py compares with other programs.
//
//   tokenizer_encode [--parse-special] [--add-special] [--decode] MODEL.gguf|tokenizer.json FILE...
//
// Prints one line of token ids for each file, or with --decode the bytes that they decode to, and
// on stderr what CPU time loading and encoding took.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/result.h"
#include "model/card.h"
#include "tensor/gguf.h"
#include "text/hf_tokenizer.h"
#include "text/tokenizer.h"

namespace fak {
namespace {

constexpr size_t kFileBytesMax = 256 * 1024 * 1024;
constexpr int kRuns = 3;

// Of this thread: a busy machine doesn't move it much.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Result<text::Vocabulary> ReadVocabulary(const std::string& path) {
  if (path.ends_with(".json")) {
    TRY_ASSIGN(const std::string source, ReadFile(path, kFileBytesMax));
    TRY_ASSIGN(const Json json, ParseJson(source));
    return text::VocabularyFromHuggingFace(json, nullptr);
  }
  TRY_ASSIGN(const std::unique_ptr<tensor::GgufFile> file, tensor::GgufFile::Open(path));
  return model::ReadVocabulary(*file);
}

struct Options {
  text::EncodeOptions encode{.add_special = false, .parse_special = false};
  bool decode = false;
};

// The ids; prints the rate of the fastest run.
std::vector<int32_t> Encode(const text::Tokenizer& tokenizer, std::string_view bytes,
                            text::EncodeOptions options) {
  std::vector<int32_t> ids;
  double fastest_s = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const double start = CpuSeconds();
    ids = tokenizer.Encode(bytes, options);
    fastest_s = std::min(fastest_s, CpuSeconds() - start);
  }
  std::fprintf(stderr, "%zu bytes, %zu tokens, %.1f MB/s\n", bytes.size(), ids.size(),
               static_cast<double>(bytes.size()) / fastest_s / 1e6);
  return ids;
}

Status Run(const std::vector<std::string>& paths, const Options& options) {
  const double start = CpuSeconds();
  TRY_ASSIGN(text::Vocabulary vocabulary, ReadVocabulary(paths[0]));
  const double read_s = CpuSeconds() - start;
  const bool sentence_piece = vocabulary.model == text::Vocabulary::Model::kSpm;
  TRY_ASSIGN(const auto tokenizer, text::Tokenizer::Create(std::move(vocabulary)));
  std::fprintf(stderr, "%d tokens, %s, read in %.1f ms, made in %.1f ms\n", tokenizer->vocab_size(),
               sentence_piece ? "SentencePiece" : "byte-level", read_s * 1e3,
               (CpuSeconds() - start - read_s) * 1e3);
  for (size_t i = 1; i < paths.size(); ++i) {
    TRY_ASSIGN(const std::string bytes, ReadFile(paths[i], kFileBytesMax));
    const std::vector<int32_t> ids = Encode(*tokenizer, bytes, options.encode);
    std::string out;
    if (options.decode) {
      out = tokenizer->Decode(ids, {.skip_special = false});
    } else {
      for (const int32_t id : ids) {
        out += std::to_string(id) + ' ';
      }
      out += '\n';
    }
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
  return {};
}

}  // namespace
}  // namespace fak

int main(int argc, char** argv) {
  fak::Options options;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--parse-special") {
      options.encode.parse_special = true;
    } else if (argument == "--add-special") {
      options.encode.add_special = true;
    } else if (argument == "--decode") {
      options.decode = true;
    } else {
      paths.emplace_back(argument);
    }
  }
  if (paths.empty()) {
    std::fputs(
        "usage: tokenizer_encode [--parse-special] [--add-special] [--decode] MODEL FILE...\n",
        stderr);
    return 2;
  }
  const fak::Status status = fak::Run(paths, options);
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().detail.c_str());
    return 1;
  }
  return 0;
}

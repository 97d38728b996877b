#include "cli/first_word.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/is_file.h"
#include "base/strings.h"
#include "cli/engine_flags.h"

namespace fak::cli {
namespace {

bool IsName(std::string_view text) {
  constexpr std::string_view kOfNames =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !text.empty() && text.find_first_not_of(kOfNames) == std::string_view::npos;
}

bool IsTagged(std::string_view word) {
  const auto tagged = Cut(word, ":");
  return tagged && IsName(tagged->first) && IsName(tagged->second) &&
         std::isalpha(static_cast<unsigned char>(word.front())) != 0;
}

// "and/or" is one too: whoever begins a prompt with it can quote it.
bool IsPath(std::string_view word) {
  return word.find('/') != std::string_view::npos &&
         word.find_first_of(" \t\r\n") == std::string_view::npos;
}

bool IsGguf(const std::string& path) {
  std::array<char, 4> magic{};
  const auto file = RandomAccessFile::Open(path);
  return file && file->size() >= magic.size() &&
         file->ReadAt(0, std::as_writable_bytes(std::span(magic))) &&
         std::string_view(magic.data(), magic.size()) == "GGUF";
}

bool NamesModel(std::string_view word) {
  if (word.find_first_of(" \t\r\n") != std::string_view::npos && !IsFile(std::string(word))) {
    return false;  // prose may begin with a URL, or end with a file's name
  }
  if (word.ends_with(".gguf") || word.starts_with("hf:") || word.starts_with("pypi:") ||
      word.starts_with("https://") || word.starts_with("http://")) {
    return true;
  }
  const std::vector<std::string> known = KnownModels();
  return std::find(known.begin(), known.end(), word) != known.end();
}

}  // namespace

FirstWord ReadFirstWord(std::string_view word, size_t words) {
  const std::string quoted = "\"" + std::string(word) + "\"";
  const auto no_model = [words](std::string note, bool mistyped) {
    return FirstWord{words == 2 || mistyped ? FirstWord::Kind::kNoModel : FirstWord::Kind::kPrompt,
                     std::move(note)};
  };
  if (NamesModel(word)) {
    return {FirstWord::Kind::kModel};
  }
  if (const std::string path(word); IsFile(path)) {
    return IsGguf(path) ? FirstWord{FirstWord::Kind::kModel}
                        : no_model(quoted + " is a file, but no GGUF; < " + path +
                                       " would read the prompt from it",
                                   false);
  }
  if (IsPath(word)) {
    return words <= 2 ? no_model(quoted + " is no file here", /*mistyped=*/true) : FirstWord();
  }
  const bool tagged = IsTagged(word);
  const bool named = tagged || IsName(word);
  const std::string meant = named ? DidYouMeanModel(word) : "";
  if (!named || (meant.empty() && !tagged && words != 2)) {
    return {};
  }
  const bool rather_a_name = word.find_first_of("0123456789.-_:") != std::string_view::npos;
  return no_model(quoted + " is no model that is known" + meant,
                  words == 1 || (!meant.empty() && rather_a_name));
}

}  // namespace fak::cli

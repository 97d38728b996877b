#include "cli/first_word.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <vector>

#include "base/file.h"
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

bool IsFile(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
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
      word.starts_with("https://")) {
    return true;
  }
  const std::vector<std::string> known = KnownModels();
  return std::find(known.begin(), known.end(), word) != known.end();
}

}  // namespace

FirstWord ReadFirstWord(std::string_view word, bool alone) {
  const std::string quoted = "\"" + std::string(word) + "\"";
  if (NamesModel(word)) {
    return {FirstWord::Kind::kModel};
  }
  if (const std::string path(word); IsFile(path)) {
    if (IsGguf(path)) {
      return {FirstWord::Kind::kModel};
    }
    return {FirstWord::Kind::kPrompt,
            quoted + " is a file, but no GGUF; < " + path + " would read the prompt from it"};
  }
  const bool tagged = IsTagged(word);
  const std::string meant = tagged || IsName(word) ? DidYouMeanModel(word) : "";
  if (meant.empty() && !tagged) {
    return {};
  }
  const bool rather_a_name = word.find_first_of("0123456789.-_:") != std::string_view::npos;
  const bool mistyped = alone || (!meant.empty() && rather_a_name);
  return {mistyped ? FirstWord::Kind::kMistypedModel : FirstWord::Kind::kPrompt,
          quoted + " is no model that is known" + meant};
}

}  // namespace fak::cli

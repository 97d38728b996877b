#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "hub/reference.h"

// Which files of a hub's repository a reference means. Pure functions, any thread.
namespace fak::hub {

struct RepositoryFile {
  std::string path;  // in the repository
  uint64_t bytes = 0;
  std::string sha256 = {};  // empty: not known
};

// Adds the .gguf files of a page of the hub's tree listing. kUpstreamError when it is none.
[[nodiscard]] Status AddFiles(const Json& page, std::vector<RepositoryFile>& files);

// The file that the reference names, or has as its quantisation ("q8_0"); without either Q4_K_M, or
// the only one. A split model ("...-00001-of-00003.gguf") is one choice: all its parts, in order.
// kNotFound names what there is.
[[nodiscard]] Result<std::vector<RepositoryFile>> ChooseFiles(
    const std::vector<RepositoryFile>& files, const Reference& reference);

// A path as a URL has it: "a b/c" -> "a%20b/c".
std::string UrlPath(std::string_view path);

}  // namespace fak::hub

#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

// The golden file of digests: a line a case, "name items digest".
namespace fak::vectors {

struct Digest {
  std::string name;
  int items = 0;
  uint64_t digest = 0;

  std::string Line() const {
    char text[64];
    snprintf(text, sizeof text, " %d %016" PRIx64, items, digest);
    return name + text;
  }
};

// Prints the digests; with a golden file's path also whether each line is in it, at its place.
// Returns the exit status: 1 if one differs or the file has another number of lines.
inline int Report(const std::vector<Digest>& digests, const char* maybe_golden) {
  std::vector<std::string> golden;
  if (maybe_golden != nullptr) {
    std::ifstream file(maybe_golden);
    for (std::string line; std::getline(file, line);) {
      golden.push_back(line);
    }
  }
  int differing = golden.size() == digests.size() || maybe_golden == nullptr ? 0 : 1;
  for (size_t i = 0; i < digests.size(); ++i) {
    const std::string line = digests[i].Line();
    const bool same = maybe_golden == nullptr || (i < golden.size() && golden[i] == line);
    differing += same ? 0 : 1;
    printf("%s%s\n", line.c_str(), same ? "" : "  DIFFERS");
  }
  if (maybe_golden != nullptr) {
    printf("%zu digests, %d differing\n", digests.size(), differing);
  }
  return differing == 0 ? 0 : 1;
}

}  // namespace fak::vectors

// fuzz: links fak_hub fak_base
// A hub's listing, after a line that says what is wanted of it: what is chosen is one of its files,
// or all parts of one in order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/limits.h"
#include "base/result.h"
#include "hub/repository.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  const auto page = fak::ParseJson(text.substr(line == text.npos ? 0 : line + 1));
  if (!page) {
    return 0;
  }
  std::vector<fak::hub::RepositoryFile> files;
  if (!fak::hub::AddFiles(*page, files)) {
    CHECK(!page->is_array());
    return 0;
  }
  for (const fak::hub::RepositoryFile& file : files) {
    CHECK(file.path.ends_with(".gguf"));
    CHECK(file.sha256.empty() || file.sha256.size() == 64);
    const std::string escaped = fak::hub::UrlPath(file.path);
    CHECK(std::all_of(escaped.begin(), escaped.end(), [](char c) { return c > ' ' && c < 127; }));
  }
  fak::hub::Reference reference;
  reference.text = "hf:o/r";
  reference.file = std::string(line == text.npos ? "" : text.substr(0, line));
  const auto chosen = fak::hub::ChooseFiles(files, reference);
  if (!chosen) {
    CHECK(chosen.error().detail.starts_with("hf:o/r: ")) << chosen.error().detail;
    return 0;
  }
  CHECK(!chosen->empty() && chosen->size() <= fak::limits::kGgufSplitsMax);
  for (const fak::hub::RepositoryFile& file : *chosen) {
    const auto same = [&file](const auto& listed) { return listed.path == file.path; };
    CHECK(std::any_of(files.begin(), files.end(), same));
  }
  return 0;
}

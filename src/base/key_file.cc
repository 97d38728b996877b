#include "base/key_file.h"

#include <algorithm>

#include "base/file.h"
#include "base/limits.h"
#include "base/strings.h"

namespace fak {

Result<std::string> ReadKeyFile(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadFile(path, limits::kConfigBytesMax));
  std::string key(Trim(text.substr(0, text.find('\n'))));
  if (key.empty()) {
    return Fail(Code::kInvalidArgument, path + ": the first line should be a key and is empty");
  }
  return CleanKey(key, path);
}

Result<std::string> CleanKey(std::string_view key, const std::string& from) {
  while (key.ends_with('\n') || key.ends_with('\r')) {  // as $(cat FILE) or a file's last line
    key.remove_suffix(1);
  }
  const bool fits =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (key.empty() || !fits) {
    return Fail(Code::kInvalidArgument,
                from + (key.empty() ? " is empty"
                                    : ": a key is of visible ASCII characters, and this one has "
                                      "blanks, control characters or others"),
                from.starts_with("--") ? from : "");
  }
  return std::string(key);
}

}  // namespace fak

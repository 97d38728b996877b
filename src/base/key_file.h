#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fak {

// A key from a file, which is never logged: its first line.
[[nodiscard]] Result<std::string> ReadKeyFile(const std::string& path);

// A key as it was given, without the line end that files and shells add. Blanks and control
// characters are refused: no client could send them. `from`: what gave it, for the error, which has
// no key in it.
[[nodiscard]] Result<std::string> CleanKey(std::string_view key, const std::string& from);

}  // namespace fak

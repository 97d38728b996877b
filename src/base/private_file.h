#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fak {

// As WriteFileAtomically() of base/file.h, which implements it, for this user alone (mode 0600): at
// no moment may another one read it. For what holds keys.
[[nodiscard]] Status WritePrivateFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace fak

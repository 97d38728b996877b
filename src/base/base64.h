#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fak {

// RFC 4648 §4, with padding.
std::string Base64(std::string_view bytes);
// Nullopt: it isn't that.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace fak

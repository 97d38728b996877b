#include "cli/text_input.h"

#include <fmt/format.h>

#include <string>

#include "base/utf8.h"

namespace fak::cli {

Status CheckUtf8(std::string_view what, std::string_view text) {
  const size_t valid = ValidUtf8Prefix(text);
  if (valid == text.size()) {
    return {};
  }
  return Fail(Code::kInvalidArgument,
              fmt::format("{}: byte {} (0x{:02X}) is not UTF-8", what, valid,
                          static_cast<unsigned char>(text[valid])),
              std::string(what));
}

}  // namespace fak::cli

#include "cli/text_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/limits.h"
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

Result<std::string> ReadStandardInput() {
  if (fcntl(STDIN_FILENO, F_GETFD) < 0) {
    return Fail(Code::kNotFound, "standard input is closed");
  }
  return ReadDescriptor(STDIN_FILENO, "standard input", limits::kTextInputBytesMax);
}

}  // namespace fak::cli

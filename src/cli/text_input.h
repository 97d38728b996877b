#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fak::cli {

// That text which a person gave is UTF-8. kInvalidArgument names `what` it is and the first byte,
// counted from 0, that isn't.
[[nodiscard]] Status CheckUtf8(std::string_view what, std::string_view text);

// All of standard input, whatever it is: a file, a pipe, a socket. kNotFound: it is
// closed. kPayloadTooLarge: beyond kTextInputBytesMax.
[[nodiscard]] Result<std::string> ReadStandardInput();

}  // namespace fak::cli

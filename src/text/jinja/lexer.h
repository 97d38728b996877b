#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fak::text::jinja {

enum class TokenKind : uint8_t {
  kData,        // text between tags
  kPrintBegin,  // {{
  kPrintEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,    // text: the value, unescaped
  kInteger,   // integer
  kFloat,     // real
  kOperator,  // text: as written
  kEnd,       // of the template
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

// Cuts a template into tokens, the last of which is kEnd. Comments, raw tags and whitespace control
// ('-', '+', trim_blocks, lstrip_blocks; the last newline of the template goes) are done here.
// Errors are kInvalidArgument with the line. Time is linear in the source, which must be UTF-8.
[[nodiscard]] Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace fak::text::jinja

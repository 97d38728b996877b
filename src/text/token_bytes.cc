#include "text/token_bytes.h"

#include <algorithm>

#include "text/byte_alphabet.h"

namespace fak::text {
namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";  // U+2581

void AppendWithBlanks(std::string& out, std::string_view token) {
  while (!token.empty()) {
    const size_t mark = std::min(token.find(kBlankMark), token.size());
    out += token.substr(0, mark);
    token.remove_prefix(mark);
    if (!token.empty()) {
      out += ' ';
      token.remove_prefix(kBlankMark.size());
    }
  }
}

}  // namespace

int ByteOfName(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') {
    return -1;
  }
  int value = 0;
  for (const char c : name.substr(3, 2)) {
    const size_t digit = std::string_view("0123456789ABCDEF").find(c);
    if (digit == std::string_view::npos) {
      return -1;
    }
    value = value * 16 + static_cast<int>(digit);
  }
  return value;
}

void AppendTokenBytes(std::string& out, Vocabulary::Model model, TokenType type,
                      std::string_view token) {
  const bool is_text = type == TokenType::kNormal || type == TokenType::kUnused;
  const int byte = type == TokenType::kByte ? ByteOfName(token) : -1;
  if (byte >= 0) {
    out += static_cast<char>(byte);
  } else if (model == Vocabulary::Model::kBpe && is_text) {
    AppendFromAlphabet(out, token);
  } else if (model == Vocabulary::Model::kSpm && (is_text || type == TokenType::kUserDefined)) {
    AppendWithBlanks(out, token);
  } else {
    out += token;
  }
}

}  // namespace fak::text

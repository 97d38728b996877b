#include "base/printable.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace fak {
namespace {

// C0 and C1, and DEL.
bool IsControl(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

std::string Escaped(std::string_view text, std::string_view allowed) {
  std::string out;
  while (!text.empty()) {
    char32_t c = 0;
    const int decoded = DecodeUtf8(text, &c);
    const std::string_view part = text.substr(0, decoded == 0 ? 1 : static_cast<size_t>(decoded));
    if (decoded != 0 && (!IsControl(c) || allowed.find(part) != std::string_view::npos)) {
      out += part;
    } else {
      out += fmt::format("\\x{:02X}", decoded == 0 ? static_cast<unsigned char>(part[0])
                                                   : static_cast<unsigned>(c));
    }
    text.remove_prefix(part.size());
  }
  return out;
}

}  // namespace

std::string Printable(std::string_view text) {
  return Escaped(text, "");
}

std::string PrintableLines(std::string_view text) {
  return Escaped(text, "\n\t");
}

}  // namespace fak

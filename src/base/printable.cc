#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace fak {
namespace {

// C0 and C1, and DEL; line and paragraph separators; marks, embeddings, overrides and isolates of
// direction, by which a line reads as another than it is.
bool IsControl(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool IsPlain(char byte) {
  return byte >= 0x20 && byte < 0x7F;
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
  return Escaped(text, "\n\t\xE2\x80\x8E\xE2\x80\x8F\xD8\x9C");  // U+200E, U+200F, U+061C
}

std::string PrintableJson(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  while (!line.empty()) {
    const auto plain =
        static_cast<size_t>(std::find_if_not(line.begin(), line.end(), IsPlain) - line.begin());
    out += line.substr(0, plain);
    line.remove_prefix(plain);
    if (line.empty()) {
      break;
    }
    char32_t c = 0;
    const auto size = static_cast<size_t>(std::max(1, DecodeUtf8(line, &c)));
    if (c != 0 && IsControl(c)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += line.substr(0, size);
    }
    line.remove_prefix(size);
  }
  return out;
}

}  // namespace fak

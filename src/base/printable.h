#pragma once

#include <string>
#include <string_view>

namespace fak {

// What came from a file, a hub or an upstream, for a terminal: it obeys no escape sequence in it.
// Control characters, and bytes that are no UTF-8, become \xNN. Pure functions, any thread.

// On one line.
std::string Printable(std::string_view text);
// Line ends and tabs stay.
std::string PrintableLines(std::string_view text);

}  // namespace fak

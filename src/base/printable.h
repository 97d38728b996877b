#pragma once

#include <string>
#include <string_view>

namespace fak {

// What came from a file, a hub or an upstream, for a terminal: it obeys no escape sequence in it.
// Control characters, those that end a line or change its direction, and bytes that are no UTF-8,
// become \xNN. Pure functions, any thread.

// On one line.
std::string Printable(std::string_view text);
// Line ends and tabs stay, and the marks of direction that languages need (not the overrides).
std::string PrintableLines(std::string_view text);
// A line of JSON, or with JSON's escapes: \uNNNN. What is no UTF-8 stays.
std::string PrintableJson(std::string_view line);

}  // namespace fak

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fak {

// ASCII text helpers, locale-free. Pure functions, any thread. Views point into the argument.

// All parts, empty ones too; Split("", ',') is one empty part.
std::vector<std::string_view> Split(std::string_view text, char separator);
// Cuts at the first separator; nullopt when there is none.
std::optional<std::pair<std::string_view, std::string_view>> Cut(std::string_view text,
                                                                 std::string_view separator);
// Without blanks, tabs, CR and LF at both ends.
std::string_view Trim(std::string_view text);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// A line for each row, the cells lined up in columns two blanks apart; with kLeft no blanks at a
// line's end. A byte is taken for a column.
enum class Align : uint8_t { kLeft, kRight };
std::string LinedUp(const std::vector<std::vector<std::string>>& rows, Align align = Align::kLeft);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);
std::string ToLower(std::string_view text);

// Strict: the whole text, base 10, no blanks, no "+", in range. Otherwise nullopt.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<uint64_t> ParseUint(std::string_view text);
// The same for a decimal number ("1", "-0.5", "1e3"); infinities and NaN are refused.
std::optional<double> ParseFloat(std::string_view text);
// "512", "4k", "1.5GiB", "2MB": k, M, G, T are powers of 1024, with or without B or iB, any case.
std::optional<uint64_t> ParseBytes(std::string_view text);

// For people: "0 B", "98.4 MB", "1.20 GB" (powers of 1000, three digits).
std::string FormatBytes(uint64_t bytes);
// For people: "850 us", "12.5 ms", "3.21 s", "4m 05s", "2h 03m".
std::string FormatDuration(int64_t ns);
// "2026-11-29T16:25:00.123Z"
std::string FormatUtc(int64_t wall_ns);

}  // namespace fak

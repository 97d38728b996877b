#include "base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/clock.h"

namespace fak {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

template <class T>
std::optional<T> ParseWhole(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto done = std::from_chars(text.data(), end, value);
  if (done.ec != std::errc() || done.ptr != end) {
    return std::nullopt;
  }
  return value;
}

template <class... Args>
std::string Format(const char* format, Args... args) {
  std::array<char, 64> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), format, args...);
  return {buffer.data(), std::min(static_cast<size_t>(size), buffer.size() - 1)};
}

// Three significant digits: "1.23 x", "12.3 x", "123 x".
std::string ThreeDigits(double value, const char* unit) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return Format("%.*f %s", decimals, value, unit);
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::optional<std::pair<std::string_view, std::string_view>> Cut(std::string_view text,
                                                                 std::string_view separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  return std::pair(text.substr(0, at), text.substr(at + separator.size()));
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) {
      out += separator;
    }
    out += parts[i];
  }
  return out;
}

std::string LinedUp(const std::vector<std::vector<std::string>>& rows, Align align) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += i == 0 ? "" : "  ";
      line += align == Align::kLeft ? row[i] + blanks : blanks + row[i];
    }
    if (align == Align::kLeft) {
      line.resize(line.find_last_not_of(' ') + 1);
    }
    out += line + '\n';
  }
  return out;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string ToLower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), Lower);
  return out;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  return ParseWhole<int64_t>(text);
}

std::optional<uint64_t> ParseUint(std::string_view text) {
  return ParseWhole<uint64_t>(text);
}

std::optional<double> ParseFloat(std::string_view text) {
  const auto value = ParseWhole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  const size_t unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit = ToLower(Trim(text.substr(unit_at)));
  const std::string_view digits = text.substr(0, unit_at);
  if (unit.ends_with("ib") && unit.size() == 3) {
    unit.resize(1);
  } else if (unit.ends_with("b")) {
    unit.pop_back();
  }
  constexpr std::string_view kUnits = "kmgt";
  double scale = 1;
  if (unit.size() > 1 || (unit.size() == 1 && kUnits.find(unit) == std::string_view::npos)) {
    return std::nullopt;
  }
  if (unit.size() == 1) {
    scale = std::ldexp(1.0, 10 * (static_cast<int>(kUnits.find(unit)) + 1));
  } else {
    return ParseUint(digits);
  }
  const auto value = ParseFloat(digits);
  if (!value || *value * scale >= 0x1p63) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(*value * scale);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) {
    return Format("%llu B", static_cast<unsigned long long>(bytes));
  }
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5) {
    value /= 1000;
    ++unit;
  }
  return ThreeDigits(value, kUnits[unit]);
}

std::string FormatDuration(int64_t ns) {
  if (ns < 0) {
    return "-" + FormatDuration(-ns);
  }
  const double value = static_cast<double>(ns);
  if (value < 999.5e3) {
    return ThreeDigits(value / 1e3, "us");
  }
  if (value < 999.5e6) {
    return ThreeDigits(value / 1e6, "ms");
  }
  const int64_t seconds = (ns + kNsPerSecond / 2) / kNsPerSecond;
  if (seconds < 100) {
    return ThreeDigits(value / 1e9, "s");
  }
  if (seconds < 3600) {
    return Format("%dm %02ds", static_cast<int>(seconds / 60), static_cast<int>(seconds % 60));
  }
  return Format("%lldh %02dm", static_cast<long long>(seconds / 3600),
                static_cast<int>(seconds % 3600 / 60));
}

std::string FormatUtc(int64_t wall_ns) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ns / kNsPerSecond);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return Format("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(wall_ns % kNsPerSecond / kNsPerMs));
}

}  // namespace fak

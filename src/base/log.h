#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"

namespace fak {

// The log of the program: one line a record, on stderr or in a file, as text for people or as one
// JSON object for machines:
//   2026-11-29T16:25:00.123Z info served model=smollm2 ms=12.5
//   {"time":"2026-11-29T16:25:00.123Z","level":"info","message":"served","model":"smollm2","ms":12.5}
// A record is bounded (limits::kLogRecordBytesMax, cut with a mark), control characters are
// escaped so that nobody can forge a line, invalid UTF-8 is replaced. Never put a secret or a
// prompt in it. Any thread. Before StartLog() records go to stderr as text, info and above.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;
  std::string file = {};  // appended to; empty: stderr
  // Records are written by another thread. When its queue (limits::kLogQueueMax) is full the
  // oldest one waiting is dropped, so logging never blocks. StopLog() writes what waits.
  bool async = false;
};

// Replaces what was there. Fails when the file can't be opened; the old log then stays.
[[nodiscard]] Status StartLog(const LogOptions& options);
// Writes what waits and goes back to the state before StartLog(). Once no other thread logs.
void StopLog();

bool LogEnabled(LogLevel level);
// "debug", "info", "warning", "error", "off".
[[nodiscard]] Result<LogLevel> ParseLogLevel(std::string_view name);

struct LogField {
  std::string_view key;  // lower_snake_case
  std::variant<std::string_view, int64_t, double, bool> value;
};
void LogRecord(LogLevel level, std::string_view message, std::span<const LogField> fields = {});
inline void LogRecord(LogLevel level, std::string_view message,
                      std::initializer_list<LogField> fields) {
  LogRecord(level, message, std::span<const LogField>(fields.begin(), fields.size()));
}

// A message in fmt's syntax; not formatted when the level is off.
template <class... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) {
    LogRecord(level, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace fak

// The only file that sees spdlog. Records are laid out here; spdlog brings them out.
#include "base/log.h"

#include <fcntl.h>

#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/printable.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace fak {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error",
                                                         "off"};

// One configuration of the log; immutable once published.
struct Output {
  bool json = false;
  std::shared_ptr<spdlog::details::thread_pool> writer;  // async only; outlives the logger
  std::shared_ptr<spdlog::logger> logger;
};

struct LogState {
  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::mutex mutex;
  std::shared_ptr<const Output> output;  // guarded by mutex
};

// A log that can't be written (its disk is full) says so on stderr, once in a while.
void ComplainOfLog(const std::string& error) {
  constexpr int64_t kEveryNs = 60'000'000'000;
  static std::atomic<int64_t> next_ns{0};
  const int64_t now_ns = Clock::Real().NowNs();
  int64_t due_ns = next_ns.load();
  if (now_ns >= due_ns && next_ns.compare_exchange_strong(due_ns, now_ns + kEveryNs)) {
    std::fprintf(stderr, "fak: log: %s\n", error.c_str());
  }
}

std::shared_ptr<const Output> MakeOutput(const LogOptions& options) {
  auto output = std::make_shared<Output>();
  output->json = options.json;
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
  }
  if (options.async) {
    output->writer = std::make_shared<spdlog::details::thread_pool>(limits::kLogQueueMax, 1);
    output->logger = std::make_shared<spdlog::async_logger>(
        "fak", std::move(sink), output->writer, spdlog::async_overflow_policy::overrun_oldest);
  } else {
    output->logger = std::make_shared<spdlog::logger>("fak", std::move(sink));
  }
  output->logger->set_pattern("%v");
  output->logger->set_level(spdlog::level::trace);
  output->logger->flush_on(spdlog::level::trace);
  output->logger->set_error_handler(ComplainOfLog);
  return output;
}

LogState& State() {
  static LogState state;
  return state;
}

std::shared_ptr<const Output> CurrentOutput() {
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  if (state.output == nullptr) {
    state.output = MakeOutput({});
  }
  return state.output;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: break;
  }
  return spdlog::level::off;
}

// `text` as it may stand in a record: valid, and no longer than what is left of `*room`.
std::string Bounded(std::string_view text, size_t* room) {
  constexpr size_t kMarkBytes = 24;
  std::string out;
  if (text.size() <= *room) {
    out = ReplaceInvalidUtf8(text);
  } else {
    const size_t kept = *room > kMarkBytes ? *room - kMarkBytes : 0;
    out = ReplaceInvalidUtf8(text.substr(0, kept)) + "[+" + std::to_string(text.size() - kept) +
          " bytes]";
  }
  *room -= std::min(*room, out.size());
  return out;
}

void AppendEscapingControls(std::string& out, std::string_view text) {
  std::string quoted;
  AppendJsonString(quoted, text);
  std::string_view inner(quoted);
  inner = inner.substr(1, inner.size() - 2);
  for (size_t i = 0; i < inner.size(); ++i) {
    // Quotes and backslashes are harmless in text; only controls stay escaped.
    if (inner[i] == '\\' && (inner[i + 1] == '"' || inner[i + 1] == '\\')) {
      ++i;
    }
    out += inner[i];
  }
}

void WriteValue(JsonWriter& writer, const LogField& field, size_t* room) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    writer.String(Bounded(*text, room));
  } else if (const auto* integer = std::get_if<int64_t>(&field.value)) {
    writer.Int(*integer);
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    writer.Double(*real);
  } else {
    writer.Bool(std::get<bool>(field.value));
  }
}

std::string TextLine(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  size_t room = limits::kLogRecordBytesMax;
  std::string line = FormatUtc(Clock::Real().WallNs());
  line += ' ';
  line += kLevelNames[static_cast<size_t>(level)];
  line += ' ';
  AppendEscapingControls(line, Bounded(message, &room));
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      const std::string value = Bounded(*text, &room);
      const bool plain = !value.empty() && value.find_first_of(" =\"") == std::string::npos;
      if (plain) {
        AppendEscapingControls(line, value);
      } else {
        AppendJsonString(line, value);
      }
    } else {
      JsonWriter writer(line);
      WriteValue(writer, field, &room);
    }
  }
  return line;
}

std::string JsonLine(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  size_t room = limits::kLogRecordBytesMax;
  std::string line;
  JsonWriter writer(line);
  writer.BeginObject();
  writer.Key("time").String(FormatUtc(Clock::Real().WallNs()));
  writer.Key("level").String(kLevelNames[static_cast<size_t>(level)]);
  writer.Key("message").String(Bounded(message, &room));
  for (const LogField& field : fields) {
    writer.Key(field.key);
    WriteValue(writer, field, &room);
  }
  writer.EndObject();
  return line;
}

}  // namespace

Status StartLog(const LogOptions& options) {
  if (!options.file.empty()) {  // or a missing folder would be made
    const FileHandle file(
        open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file.is_open()) {
      return Fail(Code::kIoError, "log: " + ErrnoError(errno, options.file).detail);
    }
  }
  std::shared_ptr<const Output> output;
  try {
    output = MakeOutput(options);
  } catch (const spdlog::spdlog_ex& error) {
    return Fail(Code::kIoError, std::string("log: ") + error.what());
  }
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  if (state.output != nullptr) {
    state.output->logger->flush();
  }
  state.output = std::move(output);
  state.level.store(options.level, std::memory_order_relaxed);
  return {};
}

void StopLog() {
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  // Destroying the writer of an async log drains its queue first.
  state.output = nullptr;
  state.level.store(LogLevel::kInfo, std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level) {
  return level >= State().level.load(std::memory_order_relaxed);
}

Result<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) {
      return static_cast<LogLevel>(i);
    }
  }
  return Fail(Code::kInvalidArgument,
              "log level \"" + std::string(name) + "\": not debug, info, warning, error or off");
}

void LogRecord(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!LogEnabled(level) || level == LogLevel::kOff) {
    return;
  }
  const std::shared_ptr<const Output> output = CurrentOutput();
  const std::string line =
      output->json ? JsonLine(level, message, fields) : TextLine(level, message, fields);
  // All that was escaped so far is what would break the form of the line.
  const std::string shown = PrintableJson(line);
  output->logger->log(ToSpdlog(level), spdlog::string_view_t(shown.data(), shown.size()));
}

}  // namespace fak

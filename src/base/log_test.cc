#include "base/log.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/strings.h"

namespace fak {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() : path_(testing::TempDir() + "fak_log_" + std::to_string(getpid())) {}
  ~LogTest() override {
    StopLog();
    std::filesystem::remove(path_);
  }
  void Start(LogOptions options) {
    options.file = path_;
    ASSERT_TRUE(StartLog(options));
  }
  // Lines written so far, without their ends.
  std::vector<std::string> Lines() {
    StopLog();
    const std::string text = *ReadFile(path_, 64 << 20);
    std::vector<std::string> lines;
    for (const std::string_view line : Split(text, '\n')) {
      lines.emplace_back(line);
    }
    EXPECT_EQ(lines.back(), "");
    lines.pop_back();
    return lines;
  }
  std::string path_;
};

TEST_F(LogTest, WritesTextForPeople) {
  Start({});
  LogRecord(LogLevel::kInfo, "served",
            {{"model", "smollm2"}, {"ms", 12.5}, {"ok", true}, {"n", int64_t{3}}, {"q", "a b"}});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(24), " info served model=smollm2 ms=12.5 ok=true n=3 q=\"a b\"");
}

TEST_F(LogTest, WritesOneJsonObjectARecord) {
  Start({.json = true});
  LogRecord(LogLevel::kError, "bad \"line\"\n", {{"model", "x\xFFy"}, {"ms", 0.1}});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  const auto record = ParseJson(lines[0]);
  ASSERT_TRUE(record) << lines[0];
  EXPECT_EQ(record->Find("level")->string(), "error");
  EXPECT_EQ(record->Find("message")->string(), "bad \"line\"\n");
  EXPECT_EQ(record->Find("model")->string(), "x\xEF\xBF\xBDy");
  EXPECT_EQ(record->Find("ms")->number(), 0.1);
}

TEST_F(LogTest, NobodyCanForgeALine) {
  Start({});
  LogRecord(LogLevel::kWarning, "a\n2026 info \\ \"quoted\"\x1b[0m", {{"k", "v\r\nx"}});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(24), " warning a\\n2026 info \\ \"quoted\"\\u001b[0m k=v\\r\\nx");
}

TEST_F(LogTest, NobodyTurnsALineRoundOrEndsItByASeparator) {
  const std::string text =
      "a\xE2\x80\xAE"
      "b\xE2\x80\xA8"
      "c\xD8\x9C"
      "d\xC2\x9B"
      "e\xC3\xA9";
  const std::string escaped = "a\\u202eb\\u2028c\\u061cd\\u009be\xC3\xA9";
  Start({});
  LogRecord(LogLevel::kInfo, text, {{"k", text}, {"q", text + " x"}});
  EXPECT_EQ(Lines().back().substr(24),
            " info " + escaped + " k=" + escaped + " q=\"" + escaped + " x\"");
  Start({.json = true});
  LogRecord(LogLevel::kInfo, text, {{"k", text}});
  const std::string line = Lines().back();
  EXPECT_NE(line.find(escaped), std::string::npos) << line;
  EXPECT_EQ(ParseJson(line)->Find("k")->string(), text);
}

TEST_F(LogTest, BoundsARecordAndKeepsItValid) {
  Start({.json = true});
  LogRecord(LogLevel::kInfo, std::string(100'000, 'm'), {{"big", std::string(1'000'000, 'x')}});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LT(lines[0].size(), limits::kLogRecordBytesMax + 300);
  const auto record = ParseJson(lines[0]);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->Find("message")->string().ends_with(" bytes]"));
  EXPECT_EQ(record->Find("big")->string(), "[+1000000 bytes]");
}

TEST_F(LogTest, HoldsBackWhatIsBelowTheLevel) {
  Start({.level = LogLevel::kWarning});
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  Log(LogLevel::kInfo, "hidden {}", 1);
  Log(LogLevel::kError, "shown {}", 2);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(24), " error shown 2");
}

TEST_F(LogTest, AsyncRecordsArriveWhileItRuns) {
  Start({.async = true});
  LogRecord(LogLevel::kInfo, "served");
  const int64_t until = Clock::Real().NowNs() + 60 * kNsPerSecond;
  std::string text;
  while (text.find("info served\n") == std::string::npos) {
    ASSERT_LT(Clock::Real().NowNs(), until) << text;
    std::this_thread::yield();
    text = *ReadFile(path_, 1 << 20);
  }
}

TEST_F(LogTest, SaysThatItCannotBeWritten) {
  if (access("/dev/full", W_OK) != 0) {
    GTEST_SKIP() << "there is no /dev/full here";
  }
  ASSERT_TRUE(StartLog({.file = "/dev/full"}));
  testing::internal::CaptureStderr();
  LogRecord(LogLevel::kInfo, "served");
  LogRecord(LogLevel::kInfo, "served");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("fak: log: "), 0u) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(LogTest, AsyncWritesEverythingBeforeItStops) {
  Start({.async = true});
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) {
        Log(LogLevel::kInfo, "record {}", i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(Lines().size(), 1000u);
}

TEST_F(LogTest, SaysWhyAFileCantBeOpened) {
  const Status started = StartLog({.file = "/dev/null/x.log"});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kIoError);
  const std::string folder = testing::TempDir() + "fak_log_test_none";
  ASSERT_FALSE(StartLog({.file = folder + "/x.log"}));
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
  EXPECT_EQ(*ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_FALSE(ParseLogLevel("loud"));
}

}  // namespace
}  // namespace fak

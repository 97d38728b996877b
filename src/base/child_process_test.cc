// child_process.h, signal.h.
#include "base/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>

#include "base/limits.h"
#include "base/signal.h"

namespace fak {
namespace {

using testing::ElementsAre;

std::vector<std::string> LinesOf(const ChildOptions& options, ChildExit* exit = nullptr) {
  auto child = ChildProcess::Spawn(options);
  EXPECT_TRUE(child) << child.error().detail;
  std::vector<std::string> lines;
  EXPECT_TRUE(child->ReadLines([&](ChildProcess::Stream stream, std::string_view line) {
    lines.push_back((stream == ChildProcess::Stream::kStderr ? "err:" : "") + std::string(line));
    return true;
  }));
  const auto ended = child->Wait();
  EXPECT_TRUE(ended);
  if (exit != nullptr) {
    *exit = *ended;
  }
  return lines;
}

TEST(ChildProcess, PassesArgumentsWithoutAShell) {
  EXPECT_THAT(LinesOf({.argv = {"printf", "%s\\n", "$HOME *", "a'b"}}),
              ElementsAre("$HOME *", "a'b"));
}

TEST(ChildProcess, CutsLinesAtEveryEnd) {
  EXPECT_THAT(LinesOf({.argv = {"printf", "a\\r\\nb\\rc\\n\\nd"}}),
              ElementsAre("a", "b", "c", "", "d"));
  const auto long_lines = LinesOf(
      {.argv = {"head", "-c", std::to_string(limits::kChildLineBytesMax + 5), "/dev/zero"}});
  ASSERT_EQ(long_lines.size(), 2u);
  EXPECT_EQ(long_lines[0].size(), limits::kChildLineBytesMax);
}

TEST(ChildProcess, SeparatesOrMergesStderr) {
  const std::vector<std::string> argv = {"sh", "-c", "echo bad >&2; exit 3"};
  ChildExit exit;
  EXPECT_THAT(LinesOf({.argv = argv}, &exit), ElementsAre("err:bad"));
  EXPECT_EQ(exit.status, 3);
  EXPECT_THAT(LinesOf({.argv = argv, .merge_stderr = true}), ElementsAre("bad"));
}

TEST(ChildProcess, SetsEnvironmentAndFolder) {
  EXPECT_THAT(LinesOf({.argv = {"sh", "-c", "echo $FAK_T $PWD; pwd"},
                       .environment = {{"FAK_T", "1"}, {"PWD", "x"}},
                       .folder = "/"}),
              ElementsAre("1 /", "/"));
}

TEST(ChildProcess, WritesStdinAndSeesItsEnd) {
  auto child = ChildProcess::Spawn({.argv = {"cat"}, .open_stdin = true});
  ASSERT_TRUE(child);
  ASSERT_TRUE(child->WriteStdin("hello\n"));
  child->CloseStdin();
  std::string line;
  ASSERT_TRUE(child->ReadLines([&line](ChildProcess::Stream, std::string_view text) {
    line = text;
    return true;
  }));
  EXPECT_EQ(line, "hello");
}

TEST(ChildProcess, KillsTheWholeGroup) {
  // The grandchild holds the pipe open; the lines end only when it is dead too.
  auto child = ChildProcess::Spawn({.argv = {"sh", "-c", "echo up; sleep 100 & sleep 100"}});
  ASSERT_TRUE(child);
  EXPECT_FALSE(*child->TryWait());
  ASSERT_TRUE(child->ReadLines([&child](ChildProcess::Stream, std::string_view) {
    child->Kill(SIGTERM);
    return true;
  }));
  const auto exit = child->Wait();
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->signal, SIGTERM);
  EXPECT_EQ(exit->status, 128 + SIGTERM);
  EXPECT_EQ((*child->TryWait())->signal, SIGTERM);
}

TEST(ChildProcess, SaysWhenThereIsNoProgram) {
  const auto child = ChildProcess::Spawn({.argv = {"no-such-program-here"}});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, Code::kNotFound);
  EXPECT_EQ(child.error().detail, "no-such-program-here: No such file or directory");
}

TEST(RunProgram, GivesOutputOrTheLastComplaint) {
  EXPECT_EQ(*RunProgram({"echo", "hi"}), "hi\n");
  const auto bad = RunProgram({"sh", "-c", "echo one >&2; echo two >&2; exit 4"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().detail, "sh: exit status 4: two");
}

TEST(SignalWatcher, CallsOnItsOwnThread) {
  std::promise<int> got;
  {
    SignalWatcher watcher({SIGUSR1, SIGUSR2}, [&got](int number) { got.set_value(number); });
    kill(getpid(), SIGUSR2);
    EXPECT_EQ(got.get_future().get(), SIGUSR2);
  }
}

}  // namespace
}  // namespace fak

#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/printable.h"
#include "base/strings.h"

namespace fak::cli {
namespace {

constexpr int64_t kQuietNs = 500 * kNsPerMs;
constexpr int64_t kRedrawNs = 100 * kNsPerMs;
// Of the whole: before that a rate says little of what is to come.
constexpr uint64_t kEstimatedFrom = 10;

int TerminalWidth() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A terminal on which a line can be drawn anew.
bool IsTerminal() {
  const char* name = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && name != nullptr && std::string_view(name) != "dumb";
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(IsTerminal()) {}
ProgressBar::~ProgressBar() {
  Finish();
}

// Whether something is to be drawn now. The word before the first blank names the task.
bool ProgressBar::Due(std::string_view what, uint64_t done) {
  const int64_t now_ns = Clock::Real().NowNs();
  const std::string_view task = what.substr(0, what.find(' '));
  if (task != task_) {
    task_ = task;
    started_ns_ = now_ns;
    drawn_ns_ = 0;
    first_done_ = done;
  }
  // Elsewhere one line says what goes on: a file is read when all is over.
  const bool pauses = terminal_ ? now_ns - drawn_ns_ < kRedrawNs : drawn_ns_ != 0;
  if (now_ns - started_ns_ < kQuietNs || pauses) {
    return false;
  }
  drawn_ns_ = now_ns;
  return true;
}

std::string ProgressBar::TimeLeft(uint64_t done, uint64_t total, double* rate) const {
  const double seconds = std::max(1e-3, static_cast<double>(drawn_ns_ - started_ns_) / 1e9);
  *rate = static_cast<double>(done - std::min(done, first_done_)) / seconds;
  const uint64_t gone = done - std::min(done, first_done_);
  if (total <= done || *rate <= 0.0 ||
      gone < (total - std::min(total, first_done_)) / kEstimatedFrom) {
    return "";
  }
  const double left = static_cast<double>(total - done) / *rate;
  return "  " + FormatDuration(static_cast<int64_t>(left * 1e9)) + " left";
}

void ProgressBar::Show(std::string_view what, uint64_t done, uint64_t total) {
  done = total == 0 ? done : std::min(done, total);
  if (!Due(what, done)) {
    return;
  }
  double rate = 0.0;
  const std::string left = TimeLeft(done, total, &rate);
  std::string text = std::string(what) + "  " + FormatBytes(done);
  if (total != 0) {
    text += " of " + FormatBytes(total);
  }
  Draw(text + "  " + FormatBytes(static_cast<uint64_t>(rate)) + "/s" + left, done, total);
}

void ProgressBar::ShowCount(std::string_view what, uint64_t done, uint64_t total) {
  if (!Due(what, done)) {
    return;
  }
  double rate = 0.0;
  const std::string left = TimeLeft(done, total, &rate);
  Draw(std::string(what) + "  " + std::to_string(done) + " of " + std::to_string(total) + left,
       done, total);
}

void ProgressBar::Draw(const std::string& raw, uint64_t done, uint64_t total) {
  const std::string text = Printable(raw);
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  std::string bar;
  const int width_max = TerminalWidth() - 1;  // a full line would wrap
  const int room = width_max - static_cast<int>(text.size()) - 3;
  if (total != 0 && room >= 10) {
    const int width = std::min(room, 40);
    const int filled =
        static_cast<int>(static_cast<uint64_t>(width) * std::min(done, total) / total);
    bar = "[" + std::string(static_cast<size_t>(filled), '#') +
          std::string(static_cast<size_t>(width - filled), '.') + "] ";
  }
  std::fprintf(stderr, "\r\x1b[K%.*s", width_max, (bar + text).c_str());
  std::fflush(stderr);
  visible_ = true;
}

void ProgressBar::Note(std::string_view line) {
  Finish();
  std::fprintf(stderr, "%s\n", PrintableLines(line).c_str());
}

void ProgressBar::Finish() {
  if (visible_) {
    std::fprintf(stderr, "\r\x1b[K");
    std::fflush(stderr);
    visible_ = false;
  }
}

}  // namespace fak::cli

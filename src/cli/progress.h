#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fak::cli {

// One line on stderr that says how far something is: a bar, rate and, from a tenth on, time left on
// a terminal, cut to its width; elsewhere (a pipe, a file, TERM=dumb) one plain line when a task
// has begun. No colour. Nothing is drawn for what takes under half a second. Not thread-safe.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();  // Finish()es

  // total 0: not known.
  void Show(std::string_view what, uint64_t done, uint64_t total);
  // The same for things that are counted.
  void ShowCount(std::string_view what, uint64_t done, uint64_t total);
  // A line of its own above the bar.
  void Note(std::string_view line);
  // Leaves the terminal's line clean.
  void Finish();

 private:
  bool Due(std::string_view what, uint64_t done);
  void Draw(const std::string& text, uint64_t done, uint64_t total);
  std::string TimeLeft(uint64_t done, uint64_t total, double* rate) const;

  const bool terminal_;
  std::string task_;
  int64_t started_ns_ = 0;
  int64_t drawn_ns_ = 0;
  uint64_t first_done_ = 0;  // resumed downloads don't count into the rate
  bool visible_ = false;
};

}  // namespace fak::cli

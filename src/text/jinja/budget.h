#pragma once

#include <cstddef>
#include <string>

#include "base/limits.h"
#include "base/result.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

// What one render may spend, so that no template runs forever, eats the memory or overflows the
// stack. A step is a node evaluated, an element touched, or about as much work on bytes.
class Budget {
 public:
  explicit Budget(int steps_max = limits::kTemplateStepsMax)
      : steps_left_(static_cast<size_t>(steps_max)) {}

  [[nodiscard]] Status Steps(size_t count = 1) {
    if (count > steps_left_) {
      return TooManySteps();
    }
    steps_left_ -= count;
    return {};
  }
  // Bytes read (searched, compared).
  [[nodiscard]] Status Scan(size_t bytes) { return Steps(bytes / kScannedBytesAStep); }
  // Whether a text may have this size.
  [[nodiscard]] Status CheckSize(size_t bytes) const;
  // Bytes of a new text, whose size is checked. Sums up to a few GB a render at most.
  [[nodiscard]] Status Write(size_t bytes);
  // The same for the product of a text's size and a count, which may overflow.
  [[nodiscard]] Status WriteRepeated(size_t bytes, size_t count);

  // One level of recursion while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) { ++budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --budget_.depth_; }
    [[nodiscard]] Status Check() const {
      return budget_.depth_ <= limits::kTemplateEvalDepthMax ? Status{} : TooDeep();
    }

   private:
    Budget& budget_;
  };

 private:
  static constexpr size_t kScannedBytesAStep = 512;
  static constexpr size_t kWrittenBytesAStep = 256;
  static Status TooManySteps();
  static Status TooDeep();
  size_t steps_left_;
  int depth_ = 0;
};

// A finished text as a value, paid for.
[[nodiscard]] Result<Value> MakeText(Budget& budget, Text text);

// A list as a value, its elements paid for.
[[nodiscard]] Result<Value> MakeListValue(Budget& budget, std::vector<Value> items,
                                          List::Form form = List::Form::kList);

// What Python would raise, as an error of the render.
tl::unexpected<Error> Raise(std::string message);

}  // namespace fak::text::jinja

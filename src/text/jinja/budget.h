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
  // Bytes searched or compared.
  [[nodiscard]] Status Scan(size_t bytes) { return Steps(bytes / kScannedBytesAStep); }
  // Bytes looked at character by character.
  [[nodiscard]] Status Decode(size_t bytes) { return Steps(bytes / kDecodedBytesAStep); }
  // Short runs of bytes, found or copied one by one.
  [[nodiscard]] Status Pieces(size_t count) { return Steps(count / kPiecesAStep); }
  // Whether a text may have this size.
  [[nodiscard]] Status CheckSize(size_t bytes) const;
  // Bytes of a new text, whose size is checked. Sums up to a few GB a render at most.
  [[nodiscard]] Status Write(size_t bytes);
  // The same for a copy of a text with its marks.
  [[nodiscard]] Status Write(const Text& text);
  // The same for the product of a text's size and a count, which may overflow.
  [[nodiscard]] Status WriteRepeated(size_t bytes, size_t count);

  // For what makes elements before they are counted: how many can still be paid.
  size_t steps_left() const { return steps_left_; }

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
  // What takes about as long as a node of the tree, some 100 ns, at most.
  static constexpr size_t kDecodedBytesAStep = 4;
  static constexpr size_t kScannedBytesAStep = 64;
  static constexpr size_t kWrittenBytesAStep = 256;
  static constexpr size_t kPiecesAStep = 8;
  static Status TooManySteps();
  static Status TooDeep();
  size_t steps_left_;
  int depth_ = 0;
};

// Of a number with hundreds of digits, made by printf.
constexpr size_t kFloatTextSteps = 16;

// A finished text as a value, paid for.
[[nodiscard]] Result<Value> MakeText(Budget& budget, Text text);

// A list as a value, its elements paid for.
[[nodiscard]] Result<Value> MakeListValue(Budget& budget, std::vector<Value> items,
                                          List::Form form = List::Form::kList);

// What Python would raise, as an error of the render.
tl::unexpected<Error> Raise(std::string message);

}  // namespace fak::text::jinja

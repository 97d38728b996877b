#pragma once

#include <string>

namespace fak {

// What a number may be, and how an error says it.
struct NumberRange {
  double least = 0.0;
  double most = 0.0;
  bool above = false;  // `least` itself is out

  // Never NaN.
  constexpr bool Has(double value) const {
    return value <= most && (above ? value > least : value >= least);
  }
  // "0 to 1", "above 0, at most 1"; "0 or more" where only a float ends it.
  std::string Text() const;
  // The same of a value that is out: Text(), or the upper end that it leaves out.
  std::string TextAgainst(double value) const;
};

}  // namespace fak

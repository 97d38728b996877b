#include "base/number_range.h"

#include <fmt/format.h>

#include <limits>

namespace fak {

std::string NumberRange::Text() const {
  const bool bounded = most < std::numeric_limits<float>::max();
  if (above) {
    return fmt::format("above {:.15g}", least) +
           (bounded ? fmt::format(", at most {:.15g}", most) : "");
  }
  return bounded ? fmt::format("{:.15g} to {:.15g}", least, most)
                 : fmt::format("{:.15g} or more", least);
}

std::string NumberRange::TextAgainst(double value) const {
  const bool unsaid = most >= std::numeric_limits<float>::max();
  return unsaid && value > most ? fmt::format("at most {:.6g}", most) : Text();
}

}  // namespace fak

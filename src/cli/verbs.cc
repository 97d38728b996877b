#include "cli/verbs.h"

#include <array>

namespace fak::cli {

std::span<const Verb> Verbs() {
  static constexpr std::array kVerbs = {
      Verb{"serve", AddServe},
      Verb{"run", AddRun},
  };
  return kVerbs;
}

}  // namespace fak::cli

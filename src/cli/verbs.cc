#include "cli/verbs.h"

#include <array>

namespace fak::cli {

std::span<const Verb> Verbs() {
  static constexpr std::array kVerbs = {
      Verb{"serve", AddServe},
      Verb{"run", AddRun},
      Verb{"pull", AddPull},
      Verb{"list", AddList},
      Verb{"rm", AddRm},
      Verb{"inspect", AddInspect},
      Verb{"tokenize", AddTokenize},
      Verb{"perplexity", AddPerplexity},
      Verb{"verify", AddVerify},
      Verb{"bench", AddBench},
      Verb{"probe", AddProbe},
      Verb{"fleet", AddFleet},
      Verb{"capabilities", AddCapabilities},
  };
  return kVerbs;
}

}  // namespace fak::cli

#pragma once

#include <functional>

#include "cli/verb.h"

namespace fak::cli {

// Adds "load" to the verbs of "fak bench"; the returned function runs it after parsing.
std::function<ExitStatus()> AddBenchLoad(CLI::App& bench);

}  // namespace fak::cli

#pragma once

#include <functional>

#include "cli/verb.h"

namespace fak::cli {

// Adds "roofline" to the verbs of "fak bench"; the returned function runs it after parsing.
std::function<ExitStatus()> AddBenchRoofline(CLI::App& bench);

}  // namespace fak::cli

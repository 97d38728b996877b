#pragma once

#include <functional>

#include "cli/verb.h"

namespace fak::cli {

// Adds "doctor" to the verbs of "fak bench"; the returned function runs it after parsing.
std::function<ExitStatus()> AddBenchDoctor(CLI::App& bench);

}  // namespace fak::cli

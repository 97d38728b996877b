#pragma once

#include <span>

#include "cli/verb.h"

namespace fak::cli {

// In the order of `fak --help`.
std::span<const Verb> Verbs();

std::function<ExitStatus()> AddServe(CLI::App& program);
std::function<ExitStatus()> AddProbe(CLI::App& program);
std::function<ExitStatus()> AddRun(CLI::App& program);
std::function<ExitStatus()> AddPull(CLI::App& program);
std::function<ExitStatus()> AddList(CLI::App& program);
std::function<ExitStatus()> AddRm(CLI::App& program);
std::function<ExitStatus()> AddInspect(CLI::App& program);
std::function<ExitStatus()> AddTokenize(CLI::App& program);
std::function<ExitStatus()> AddPerplexity(CLI::App& program);
std::function<ExitStatus()> AddVerify(CLI::App& program);
std::function<ExitStatus()> AddBench(CLI::App& program);
std::function<ExitStatus()> AddCapabilities(CLI::App& program);

}  // namespace fak::cli
